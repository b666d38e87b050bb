"""Models that continue texts, and models that fill gaps in them.

The names that the stub ``__init__.pyi`` lists are imported on first use.
"""

from uwaga.files.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

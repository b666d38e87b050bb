"""Translation of requests with one or more models.

The names that the stub ``__init__.pyi`` lists are imported on first use, so that translating does not load
the code for scores and attention.
"""

from uwaga.files.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

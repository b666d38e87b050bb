"""uwaga: sequence-to-sequence translation with attention.

The names that the stub ``__init__.pyi`` lists are imported on first use, so that ``import uwaga`` is quick.
"""

from uwaga.files.lazy_names import lazy_names

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
__all__ += ["__version__"]

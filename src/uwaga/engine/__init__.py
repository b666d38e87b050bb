"""The native CPU engine: Transformers and recurrent models in C++, without torch.

The names that the stub ``__init__.pyi`` lists are imported on first use, since ``uwaga --version`` needs only
the core.
"""

from uwaga.files.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

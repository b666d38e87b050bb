"""Typed settings. An unknown key is an error whose message suggests the closest known key.

The names of the stub ``__init__.pyi`` are imported when they are used, so that translating does not import
the settings of training.
"""

from uwaga.files.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

"""Typed, closed settings. An unknown key is an error that names the nearest known key.

The names of the stub ``__init__.pyi`` are imported when they are used: a translation starts without the
settings of a training.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""The native CPU engine: Transformers and recurrent models in C++, without torch.

The names of the stub ``__init__.pyi`` are imported when they are used:
``uwaga --version`` needs the core alone.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

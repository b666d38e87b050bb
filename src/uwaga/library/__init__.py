"""The library of models: those on this machine, and the catalogues of those to download.

Importing this fetches nothing and reads no file; the names of the stub ``__init__.pyi`` are imported when
they are used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

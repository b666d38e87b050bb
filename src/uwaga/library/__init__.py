"""The library of models: those on this machine, and the catalogues of those to download.

Importing this fetches nothing and reads no file; the names of the stub ``__init__.pyi`` are imported when
they are used.
"""

from uwaga.files.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

"""Models on this machine, and catalogues of models to download.

Importing this package accesses neither the network nor files; the names in the stub ``__init__.pyi`` are
imported on first use.
"""

from uwaga.files.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

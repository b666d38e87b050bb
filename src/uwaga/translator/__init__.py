"""Requests in, translations out: translators, text generators and mask fillers.

The names of the stub ``__init__.pyi`` are imported when they are used: translating starts without the code
that continues texts, fills gaps or scores.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

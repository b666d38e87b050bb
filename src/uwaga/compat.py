"""An alias of the package :mod:`uwaga_compat`, for ``from uwaga.compat import ctranslate2``."""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("uwaga_compat")

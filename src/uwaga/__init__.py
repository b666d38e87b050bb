"""uwaga: sequence-to-sequence translation with attention."""

from uwaga.contracts import Hypothesis, Translation
from uwaga.errors import UwagaError

__version__ = "0.1.0"
__all__ = ["Hypothesis", "Translation", "UwagaError", "__version__"]

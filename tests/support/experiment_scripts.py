"""Import the scripts of experiments/ as modules."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


def experiment(name: str) -> ModuleType:
    """Return the script with the given name as a module; scripts may import each other."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)

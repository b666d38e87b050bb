"""An installed uwaga, alone with what its wheel asks for: run as a program, by the tests and by cibuildwheel.

The environment must hold no torch. Each instruction set that the processor has translates a sentence.
"""

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

import uwaga
from uwaga.engine.cpu import VARIABLE, usable

SENTENCE = "I want to buy a car."


def translations() -> dict[str, str]:
    """The sentence in German, by instruction set."""
    found = {}
    for isa in usable():
        os.environ[VARIABLE] = isa
        found[isa] = uwaga.load().translate(SENTENCE).text
    return found


def main() -> None:
    place = Path(uwaga.__file__).parent
    files = importlib.metadata.files("uwaga") or []
    assert importlib.util.find_spec("torch") is None, "a plain install brings no torch"
    assert (place / "py.typed").is_file()
    assert any(file.match("*.dist-info/licenses/LICENSE") for file in files)
    made = translations()
    assert len(set(made.values())) == 1, made
    assert SENTENCE not in made.values()
    print(f"{place}: Python {sys.version.split()[0]}, {', '.join(made)}: {made['portable']}")


if __name__ == "__main__":
    main()

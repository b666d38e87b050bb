"""Check an installed uwaga in an environment with only its dependencies, for tests and cibuildwheel.

The environment must not contain torch. A sentence is translated with each supported instruction set.
"""

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

import uwaga
from uwaga.engine.cpu import ISA_VARIABLE, available_isas

SENTENCE = "I want to buy a car."


def translations() -> dict[str, str]:
    """Return the German translation of the sentence by instruction set."""
    texts = {}
    for isa in available_isas():
        os.environ[ISA_VARIABLE] = isa
        texts[isa] = uwaga.load().translate(SENTENCE).text
    return texts


def main() -> None:
    package = Path(uwaga.__file__).parent
    files = importlib.metadata.files("uwaga") or []
    assert importlib.util.find_spec("torch") is None, "a plain install brings no torch"
    assert (package / "py.typed").is_file()
    assert any(file.match("*.dist-info/licenses/LICENSE") for file in files)
    texts = translations()
    assert len(set(texts.values())) == 1, texts
    assert SENTENCE not in texts.values()
    print(f"{package}: Python {sys.version.split()[0]}, {', '.join(texts)}: {texts['portable']}")


if __name__ == "__main__":
    main()

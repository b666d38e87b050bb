"""The virtual environments of the peers, created on first use with the torch version that uwaga runs on."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# JoeyNMT 2.3 asks for protobuf < 3.21, and so runs with a SentencePiece of that time; it imports
# importlib_metadata without asking for it.
REQUIREMENTS = {
    "joeynmt": ["joeynmt==2.3", "sentencepiece==0.1.99", "importlib_metadata"],
    "firefox": ["fxtranslate==0.5.0", "pymarian==1.12.42"],
    "opusfilter": ["opusfilter==3.3.1"],
    "huggingface": ["transformers==5.23.0", "accelerate==1.15.0"],
}
WITHOUT_TORCH = ("firefox", "opusfilter")
MARKER = "installed.json"


def python_of(peer: str, folder: Path) -> Path:
    """Return the Python of a peer's environment.

    The environment is created if it does not exist or has other requirements.
    """
    torch = (
        [] if peer in WITHOUT_TORCH else ["torch==" + importlib.metadata.version("torch").partition("+")[0]]
    )
    requirements = [*torch, *REQUIREMENTS[peer]]
    path = folder / peer
    python = path / "bin" / "python"
    marker = path / MARKER
    if marker.exists() and json.loads(marker.read_text(encoding="utf-8")) == requirements:
        return python
    print(f"making {path} with {', '.join(requirements)}", file=sys.stderr)
    shutil.rmtree(path, ignore_errors=True)
    log = folder / f"{peer}-install.log"
    folder.mkdir(parents=True, exist_ok=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    with log.open("w", encoding="utf-8") as output:
        for command in (
            [sys.executable, "-m", "venv", str(path)],
            *([[*pip, *torch]] if torch else []),
            [*pip, *requirements],
        ):
            if subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode:
                raise SystemExit(f"{peer} could not be installed (see {log}); leave it out with --systems")
    marker.write_text(json.dumps(requirements), encoding="utf-8")
    return python


@contextlib.contextmanager
def installed_environment() -> Iterator[dict[str, str]]:
    """Yield the environment of a new process of an installed package, which keeps its bytecode.

    The first process writes the bytecode, so it must not be measured.
    """
    with tempfile.TemporaryDirectory() as bytecode:
        yield {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}

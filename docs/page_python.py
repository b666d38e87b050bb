"""Copy Pyodide and NumPy, which run Python programs in the pages of the course, to the site.

Pyodide is the npm package ``pyodide`` (page/package.json), and ``page/get_numpy.py`` puts the wheel of NumPy
for it beside it. Without the one or the other, programs are checked by ``uwaga learn`` alone.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

PYODIDE = Path(__file__).resolve().parent.parent / "page/node_modules/pyodide"
FILES = ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")
LOCK = "pyodide-lock.json"
NOTICE = """Python in this folder, which the course runs in the reader's browser:

Pyodide {version}, Mozilla Public License 2.0, https://github.com/pyodide/pyodide
CPython {python}, PSF License 2, https://www.python.org
NumPy {numpy}, BSD 3-Clause License, https://numpy.org; its license is in the wheel
"""


def numpy_wheel() -> Path | None:
    """Return the path of NumPy's wheel, or None if it is missing."""
    if not (PYODIDE / LOCK).exists():
        return None
    lock = json.loads((PYODIDE / LOCK).read_text(encoding="utf-8"))
    path = PYODIDE / lock["packages"]["numpy"]["file_name"]
    return path if path.exists() else None


def megabytes(uses_numpy: bool) -> int | None:
    """Return the size in megabytes of the files that a program needs, or None if the site lacks them."""
    files = [PYODIDE / name for name in FILES]
    wheel = numpy_wheel()
    if uses_numpy:
        if wheel is None:
            return None
        files.append(wheel)
    if not all(path.exists() for path in files):
        return None
    return round(sum(path.stat().st_size for path in files) / 1e6)


def copy_python(folder: Path) -> None:
    """Copy Pyodide and NumPy to a folder of the site, if they are installed."""
    if megabytes(uses_numpy=False) is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(PYODIDE / name, folder / name)
    lock = json.loads((PYODIDE / LOCK).read_text(encoding="utf-8"))
    numpy = lock["packages"]["numpy"]
    wheel = numpy_wheel()
    if wheel is not None:
        shutil.copyfile(wheel, folder / wheel.name)
    lock["packages"] = {} if wheel is None else {"numpy": numpy}
    (folder / LOCK).write_text(json.dumps(lock), encoding="utf-8")
    info = lock["info"]
    notice = NOTICE.format(version=info["version"], python=info["python"], numpy=numpy["version"])
    (folder / "LICENSES.txt").write_text(notice, encoding="utf-8")

"""The course as one file: the built documentation with its laboratory, for a reader without a network.

    python release/course.py SITE FOLDER

writes FOLDER/uwaga-course-VERSION.zip from the folder that ``mkdocs build`` has made. Browsers do not run the
laboratory's modules from ``file://``, so README.txt in the archive names the one command that serves it.
"""

import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
README = f"""The course on attention, and the documentation, of uwaga {VERSION}.

In this folder, run

    python3 -m http.server --bind 127.0.0.1

and open http://127.0.0.1:8000/learn/ in a browser. Nothing is loaded from elsewhere.
Without a server, the pages can be read as files (learn/index.html), but the laboratory does not start.
"""


def write_course(site: Path, archive: Path) -> None:
    """Write the archive of a built site; the same files give the same bytes.

    Raises:
        SystemExit: the folder has no course.
    """
    if not (site / "learn/index.html").is_file():
        sys.exit(f"error: {site} has no learn/index.html; build it with `make docs`")
    archive.parent.mkdir(parents=True, exist_ok=True)
    top = archive.stem
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        contents = {
            path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()
        }
        for name, data in sorted({**contents, "README.txt": README.encode()}.items()):
            file.writestr(zipfile.ZipInfo(f"{top}/{name}"), data, zipfile.ZIP_DEFLATED)
    print(f"{archive}: {archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("error: name the built site and the folder of the archive")
    write_course(Path(sys.argv[1]), Path(sys.argv[2]) / f"uwaga-course-{VERSION}.zip")

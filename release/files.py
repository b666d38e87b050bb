"""The files of a release: built twice from a clean clone, then checked; ``make release-files`` does both.

``build`` writes the sdist and a wheel for this machine into FOLDER/packages. ``check`` reads that folder, to
which the release workflow adds the wheels of other machines, and writes FOLDER/about: a software bill of
materials, a list of the contents, checksums, the recipe for conda-forge and, for a tag, the release's notes.

Needs git, a C++ compiler and an index with the packages of tools.txt.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
MAX_WHEEL_BYTES = 20_000_000
"""Maximum size in bytes of a wheel with the bundled model."""
CORE = r"uwaga/engine/_core[\w.-]*\.(so|pyd)"
FILE_KINDS = {
    "compiled core": CORE,
    "Python": r"uwaga(_\w+)?/((?!(.*/)?(tests?|conftest)[/.])[\w/]+\.pyi?|py\.typed)",
    "bundled model": r"uwaga/bundled/(model\.safetensors|source\.spm|(alignment_head|config)\.json|card\.md)",
    "data": r"uwaga(/conversion|/results|_course)/[\w/]+\.(json|txt|yaml)",
    "pages and scripts": r"uwaga(/results|_server)/[\w/]+\.(css|html|js|svg)",
    "licence": r"uwaga-[\w.]+\.dist-info/licenses/LICENSE",
    "metadata": r"uwaga-[\w.]+\.dist-info/(METADATA|RECORD|WHEEL|entry_points\.txt)",
}
"""Patterns of the files of a wheel, by kind."""
AUDITWHEEL_FILES = (
    r"uwaga\.libs/lib(gcc_s|stdc\+\+)-[\w.]+|uwaga-[\w.]+\.dist-info/sboms/auditwheel\.cdx\.json"
)
"""Files that auditwheel adds for musl: systems with musl may lack these compiler libraries."""


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program without PYTHONPATH and return its output; exit with its output on an error."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = list(map(str, command))
    process = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=cwd)
    if process.returncode:
        sys.exit(f"{process.stdout[-4000:]}{process.stderr[-4000:]}error: {' '.join(words)} failed")
    return process.stdout


def environment(folder: Path, *requirements: str | Path) -> Path:
    """Return the Python of a new virtual environment with these requirements, and without pip."""
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *requirements)
    return python


def tools(folder: Path) -> Path:
    """Return the Python of an environment with the packages of tools.txt."""
    return environment(folder / "tools", "--requirement", ROOT / "release/tools.txt")


def members(path: Path) -> dict[str, bytes]:
    """Return the files of an sdist, without its top folder, or of a wheel."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    contents = {}
    with tarfile.open(path) as sdist:
        for member in sdist:
            if file := sdist.extractfile(member):
                contents[member.name.partition("/")[2]] = file.read()
    return contents


def build(packages: Path) -> None:
    """Build the sdist and, from it, a wheel, in two clones of the last commit; the files must be equal."""
    packages.mkdir(parents=True, exist_ok=True)
    if existing := sorted(path.name for path in packages.iterdir()):
        sys.exit(f"error: {packages} is not empty ({existing[0]}); remove it or name another folder")
    with tempfile.TemporaryDirectory() as temporary:
        python = tools(Path(temporary))
        builds = []
        origin = ROOT
        for name in ("first", "the second clone"):  # lengths differ, so that no path can hide in the files
            clone = Path(temporary) / name
            run("git", "clone", "--quiet", "--depth=1", f"file://{origin}", clone)
            commit, seconds = run("git", "log", "-1", "--format=%H %ct", cwd=clone).split()
            (clone / "COMMIT").write_text(f"{commit}\n")  # for `uwaga --version`
            os.environ["SOURCE_DATE_EPOCH"] = seconds
            run(python, "-m", "build", "--outdir", clone / "dist", clone)
            builds.append(sorted((clone / "dist").iterdir()))
            origin = clone  # the same commit, whatever happens in ROOT meanwhile
        for file, repeated in zip(*builds, strict=True):
            if file.name != repeated.name or file.read_bytes() != repeated.read_bytes():
                first, second = members(file), members(repeated)
                differing = sorted(n for n in first.keys() | second.keys() if first.get(n) != second.get(n))
                sys.exit(
                    f"error: {file.name} differs between two builds: {', '.join(differing) or 'its headers'}"
                )
            (packages / file.name).write_bytes(file.read_bytes())
            print(f"{file.name}: {file.stat().st_size:,} bytes, equal in two builds of {commit[:12]}")


def check_tag(tag: str, about: Path) -> None:
    """Check the tag against the version and the changelog, and write the release notes."""
    if tag != f"v{VERSION}":
        sys.exit(f"error: the tag is {tag} and the version in pyproject.toml {VERSION}")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (.*)$", changelog, flags=re.MULTILINE)[1:]
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        if title.split()[0] == VERSION:
            (about / "notes.md").write_text(text.strip() + "\n", encoding="utf-8")
            return
    sys.exit(f"error: CHANGELOG.md has no section ## {VERSION}")


def check_contents(sdist: Path, wheels: list[Path]) -> str:
    """Check the sdist against the commit and the wheels against the sdist; return their lists of files."""
    tracked = set(run("git", "ls-tree", "-r", "--name-only", "-z", "HEAD", cwd=ROOT).split("\0")) - {""}
    expected = {name for name in tracked if not name.startswith(".ci/")} | {"PKG-INFO", "COMMIT"}
    source = members(sdist)
    if differing := sorted(expected ^ source.keys()):
        sys.exit(f"error: {sdist.name} and the commit differ in {', '.join(differing)}")
    package = {name.removeprefix("src/") for name in source if name.startswith("src/uwaga")}
    lines = [sdist.name, *(f"{len(data):>12,} {name}" for name, data in sorted(source.items()))]
    for wheel in wheels:
        contents = members(wheel)
        check_wheel(wheel, contents, package)
        lines += ["", wheel.name, *(f"{len(data):>12,} {name}" for name, data in sorted(contents.items()))]
    return "\n".join(lines) + "\n"


def check_wheel(wheel: Path, contents: dict[str, bytes], package: set[str]) -> None:
    """Check the size of a wheel, the kinds of its files, and its package against the sdist."""
    size = wheel.stat().st_size
    if size > MAX_WHEEL_BYTES:
        sys.exit(f"error: {wheel.name} has {size:,} bytes, more than {MAX_WHEEL_BYTES:,}")
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for name, data in contents.items():
        if re.fullmatch(AUDITWHEEL_FILES, name) and "musllinux" in wheel.name:
            continue
        kind = next((kind for kind, pattern in FILE_KINDS.items() if re.fullmatch(pattern, name)), None)
        if kind is None:
            sys.exit(f"error: {wheel.name} holds {name}, which is none of: {', '.join(FILE_KINDS)}")
        counts[kind] += 1
        sizes[kind] += len(data)
    if missing := [kind for kind in FILE_KINDS if not counts[kind]]:
        sys.exit(f"error: {wheel.name} lacks: {', '.join(missing)}")
    files = {name for name in contents if re.match(r"uwaga\w*/", name) and not re.fullmatch(CORE, name)}
    if counts["compiled core"] != 1 or files != package:
        differing = ", ".join(sorted(files ^ package)) or f"{counts['compiled core']} cores instead of one"
        sys.exit(f"error: {wheel.name} and the sdist differ: {differing}")
    print(f"{wheel.name}: {size:,} bytes")
    for kind in FILE_KINDS:
        print(f"{sizes[kind]:>12,} bytes in {counts[kind]:>3} {kind}")


def check_installed(packages: Path, temporary: Path) -> Path:
    """Install the wheel for this machine, translate with it, and return the environment's Python."""
    arguments = [
        "--no-index",
        f"--find-links={packages}",
        "--no-deps",
        "--only-binary=:all:",
        f"uwaga=={VERSION}",
    ]
    run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", temporary / "ours", *arguments)
    [wheel] = (temporary / "ours").iterdir()
    python = environment(temporary / "installed", "--no-compile", wheel)
    disk_bytes = sum(file.lstat().st_size for file in (temporary / "installed").rglob("*"))
    started = time.monotonic()
    german = run(python.with_name("uwaga"), "translate", "I want to buy a car.", cwd=temporary).strip()
    seconds = time.monotonic() - started
    if not german:
        sys.exit("error: the installed uwaga translates nothing")
    print(f"installed: {disk_bytes / 1e6:.0f} MB on disk; {german!r} {seconds:.1f} s after the installation")
    print(run(python, ROOT / "tests/support/check_installed.py", cwd=temporary), end="")
    return python


def check(packages: Path, about: Path, tag: str | None) -> None:
    """Check all files of a release, and write the files that are published with them."""
    about.mkdir(exist_ok=True)
    if tag is not None:
        check_tag(tag, about)
    sdists, wheels = sorted(packages.glob("*.tar.gz")), sorted(packages.glob("*.whl"))
    if [path.name for path in sdists] != [f"uwaga-{VERSION}.tar.gz"] or not wheels:
        sys.exit(f"error: {packages} must hold uwaga-{VERSION}.tar.gz and a wheel; `build` makes both")
    files = [*sdists, *wheels]
    if stray := sorted(set(packages.iterdir()) - set(files)):
        sys.exit(f"error: {stray[0]} is no file of a release")
    (about / "contents.txt").write_text(check_contents(sdists[0], wheels), encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        python = tools(temporary)
        print(run(python, "-m", "twine", "check", "--strict", *files), end="")
        for wheel in wheels:
            if "linux" in wheel.name:
                print(run(python, "-m", "auditwheel", "show", wheel).strip())
            if tag is not None and "-linux_" in wheel.name:
                sys.exit(f"error: {wheel.name} is for this machine only; a release has cibuildwheel's")
        installed = check_installed(packages, temporary)
        bill = about / "sbom.cdx.json"
        project = f"--pyproject={ROOT / 'pyproject.toml'}"
        output = ["--output-reproducible", f"--output-file={bill}"]
        run(python, "-m", "cyclonedx_py", "environment", project, *output, installed)
    courses = sorted(about.parent.glob("uwaga-course-*.zip"))  # that which `make course` has made, if it has
    published = [*files, bill, *courses]
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in published]
    (about / "SHA256SUMS").write_text("".join(sums))
    recipe = (ROOT / "release/recipe.yaml.in").read_text(encoding="utf-8")
    recipe = recipe.replace("@VERSION@", VERSION).replace("@SHA256@", sums[0].split()[0])
    (about / "recipe.yaml").write_text(recipe, encoding="utf-8")
    print(f"{about}: {', '.join(sorted(path.name for path in about.iterdir()))}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build and check the files of a release.")
    parser.add_argument("step", choices=["build", "check"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tag", help="with check: the tag that is released, which must fit the version")
    arguments = parser.parse_args()
    packages, about = arguments.folder.absolute() / "packages", arguments.folder.absolute() / "about"
    if arguments.step == "build":
        build(packages)
    else:
        check(packages, about, arguments.tag)


if __name__ == "__main__":
    main()

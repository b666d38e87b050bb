"""Read the interface texts of a package, in English and German, from the message formats of programs."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from catalogues import messages

Pairs = Iterator[tuple[str, str]]
Files = dict[str, Callable[[], bytes]]
GERMAN = re.compile(r"(?<![A-Za-z])(de[-_]DE(?:[-_]formal)?|de[-_]de|deDE|de|german)(?![A-Za-z])")
ENGLISH = {
    "de": ("en", "en-US", "en_US", "en-us", "en-GB", "en_GB"),
    "german": ("english",),
    "deDE": ("enUS", "enGB"),
    "de-de": ("en-us", "en-gb", "en"),
    "de_DE": ("en_US", "en_GB", "en_EN", "en", "en-US"),
}
CODE = re.compile(
    r"(?:[a-z]{1,8}\.)?(?:de|en|german|english)(?:[-_]?[A-Z]{2}|[-_][a-z]{2})?(?:[A-Z][a-z]+)?|[A-Z_]+_(?:DE|EN)(?:_\w+)?"
)
TRANSLATED = {
    ".json",
    ".js",
    ".mjs",
    ".cjs",
    ".ts",
    ".php",
    ".inc",
    ".lua",
    ".properties",
    ".ftl",
    ".dtd",
    ".yml",
    ".yaml",
}
LARGEST = 4_000_000
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)
      | (?P<name>[\w$.-]+) | (?P<mark>=>|[{}\[\]():,=;])""",
    re.VERBOSE | re.DOTALL,
)


def files_of(path: Path) -> Files:
    """Return the files of a folder or an archive, and of the archives in it, by name."""
    files: Files = {}
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix in (".xpi", ".ja"):
                files |= _zip_files(file.read_bytes())
            elif file.is_file() and not file.is_symlink():
                files[str(file)] = file.read_bytes
    elif path.suffix == ".whl":
        files = _zip_files(path.read_bytes())
    return files


def _zip_files(data: bytes) -> Files:
    archive = zipfile.ZipFile(io.BytesIO(data))
    return {name: partial(archive.read, name) for name in archive.namelist() if name[-1] != "/"}


def translations(files: Files) -> Pairs:
    """Yield each English text and its translation."""
    for name, read in files.items():
        suffix = PurePosixPath(name).suffix
        if name.endswith(".d.ts") or not GERMAN.search(name) or suffix not in TRANSLATED | {".mo", ".po"}:
            continue
        if suffix == ".mo":
            yield from messages(read())
        elif suffix == ".po":
            yield from _po(read().decode("utf-8", "replace"))
        else:
            german = _texts(read(), suffix)
            source = next((files[other] for other in _english(name) if other in files), None)
            english = _texts(source(), suffix) if source else {}
            for path, text in german.items():
                key = path.rsplit("\0", 1)[-1]
                yield (
                    english.get(path) or ("" if english else key if " " in key or key.istitle() else ""),
                    text,
                )


def _english(name: str) -> Iterator[str]:
    """Yield the names that the English file may have."""
    matches = list(GERMAN.finditer(name))
    for number in (len(matches), 1):
        for code in ENGLISH.get(matches[-1][1], ("en-US", "en_US", "en-GB", "en_GB", "en", "en-us")):
            text = name
            for match in reversed(matches[-number:]):
                text = text[: match.start()] + code + text[match.end() :]
            yield text


def _texts(data: bytes, suffix: str) -> dict[str, str]:
    """Return the texts of a file by their paths."""
    return {_without_codes(path): text for path, text in _read_pairs(data, suffix)}


def _without_codes(path: str) -> str:
    return "\0".join(part for part in path.split("\0") if part and not CODE.fullmatch(part))


def _read_pairs(data: bytes, suffix: str) -> Pairs:
    if len(data) > LARGEST:
        return
    content = data.decode("utf-8", "replace")
    if suffix == ".json":
        try:
            yield from _leaves(json.loads(content), "")
        except ValueError:
            return
    elif suffix in (".yml", ".yaml"):
        yield from re.findall(r"^ +([\w.]+): *[\"']?(.+?)[\"']?\s*$", content, re.MULTILINE)
    elif suffix == ".dtd":
        yield from re.findall(r'<!ENTITY\s+([\w.-]+)\s+"([^"]*)"', content)
    elif suffix in (".properties", ".ftl"):
        section = ""
        for key, text, attribute, value in re.findall(
            r"^([\w.-]+) *= *(\S.*)$|^ +\.(\w+) *= *(\S.*)$", content, re.MULTILINE
        ):
            section = key or section
            yield f"{section}.{attribute}", _unescape(text or value)
    else:
        yield from _script(content)


def _leaves(tree: Any, path: str) -> Pairs:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _leaves(value, f"{path}\0{key}")
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _leaves(value, f"{path}\0#{number}")
    elif isinstance(tree, str):
        yield path, tree


def _unescape(text: str) -> str:
    text = re.sub(
        r"\\u(?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{4}))",
        lambda match: chr(int(match[1] or match[2], 16)),
        text,
    )
    text = re.sub(r"\\x([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), text)


def _script(content: str) -> Pairs:
    """Yield the texts after ``key:``, ``key =>`` and ``['key'] =`` in a script, with their keys.

    The script is not run.
    """
    path: list[str] = []
    key = ""
    before: list[str] = []
    for match in TOKEN.finditer(content):
        kind, token = match.lastgroup, match[0]
        if kind == "comment":
            continue
        if kind == "mark":
            if token in "{[(":
                path.append(key if before and before[-1] in (":", "=>") else "")
                key = ""
            elif token in "}])" and path:
                closed = path.pop()
                key = before[-1] if token == "]" and before else closed
            elif token in (":", "=>", "=") and before:
                key = key if before[-1] == "]" else before[-1]
        elif kind == "text":
            text = _unescape(token[1:-1])
            if before and before[-1] in (":", "=>", "="):
                yield "\0".join([*path, key]), text
            token = text
        before.append(token)


def _po(content: str) -> Pairs:
    for entry in re.split(r"\n\s*\n", content):
        if "#, fuzzy" in entry or entry.startswith("#~"):
            continue
        parts = {}
        for field in ("msgid", "msgstr", r"msgstr\[0\]"):
            field_match = re.search(rf'^{field} ((?:"(?:[^"\\]|\\.)*"\s*)+)', entry, re.MULTILINE)
            if field_match:
                parts[field[:6]] = _unescape("".join(re.findall(r'"((?:[^"\\]|\\.)*)"', field_match[1])))
        if parts.get("msgid") and parts.get("msgstr"):
            yield parts["msgid"], parts["msgstr"]

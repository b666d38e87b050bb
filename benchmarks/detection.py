# ruff: noqa: E501
"""Measure language detectors on single sentences of ten languages: accuracy, time and memory.

    python benchmarks/documents.py fetch
    python benchmarks/detection.py [--cache FOLDER] [--each 500] [--detector py3langid]

The sentences are translations in the PO files of the packages that ``documents.py`` fetches. They have 4 to
30 words (in Japanese and Chinese 12 to 80 characters), no placeholders and tags, and occur once. Without
``--detector``, all installed detectors run, each in a separate process, so that memory is measured
separately. heliport is under the GPL and is used only in this benchmark.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import random
import re
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from pathlib import Path

from babel.messages.pofile import read_po

LANGUAGES = ("cs", "de", "es", "fr", "it", "ja", "nl", "pl", "ru", "zh")
FILE = re.compile(r"[/_.-](cs|de|es|fr|it|ja|nl|pl|ru|zh_CN|zh_Hans)(?:/(?:LC_MESSAGES/)?[^/]+)?\.po$")
MARKS = re.compile(r"[<>{}%@\\|_$&\n#=]|https?:")
DETECTORS = ("py3langid", "heliport")
THREE = {"ces": "cs", "deu": "de", "spa": "es", "fra": "fr", "ita": "it", "jpn": "ja", "nld": "nl", "pol": "pl",
         "rus": "ru", "cmn": "zh", "zho": "zh"}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "uwaga-documents")
    parser.add_argument("--each", type=int, default=500)
    parser.add_argument("--detector", choices=DETECTORS)
    arguments = parser.parse_args()
    path = arguments.cache / "sentences.json"
    if arguments.detector:
        measure(arguments.detector, json.loads(path.read_text(encoding="utf-8")))
        return
    texts = sentences(arguments.cache / "packed", arguments.each)
    path.write_text(json.dumps(texts), encoding="utf-8")
    print({language: len(rows) for language, rows in texts.items()})
    for name in DETECTORS:
        if importlib.util.find_spec(name) is not None:
            command = [sys.executable, __file__, "--cache", str(arguments.cache), "--detector", name]
            subprocess.run(command, check=True)


def sentences(folder: Path, count: int) -> dict[str, list[str]]:
    """Return ``count`` sentences of each language, drawn from all files in the folder."""
    texts: dict[str, set[str]] = defaultdict(set)
    for archive in sorted(folder.iterdir()):
        if ".tar" not in archive.name:
            continue
        with tarfile.open(archive) as file:
            for info in file:
                named = FILE.search(info.name)
                if not named or not 0 < info.size < 3_000_000 or len(texts[named[1][:2]]) > 4 * count:
                    continue
                stream = file.extractfile(info)
                try:
                    catalogue = read_po(io.BytesIO(stream.read() if stream else b""), abort_invalid=False)
                except (ValueError, UnicodeDecodeError):
                    continue
                for message in catalogue:
                    if (
                        isinstance(message.string, str)
                        and message.string != message.id
                        and not message.fuzzy
                        and fits(message.string, named[1][:2])
                    ):
                        texts[named[1][:2]].add(message.string)
    draw = random.Random(1)
    return {name: draw.sample(sorted(texts[name]), min(count, len(texts[name]))) for name in LANGUAGES}


def fits(text: str, language: str) -> bool:
    if MARKS.search(text):
        return False
    if language in ("ja", "zh"):
        return 12 <= len(text) <= 80 and not text.isascii()
    return 4 <= len(text.split()) <= 30


def measure(detector: str, texts: dict[str, list[str]]) -> None:
    before = high_water()
    started = time.perf_counter()
    identify = detector_of(detector)
    identify("Ein Satz.")
    loading = time.perf_counter() - started
    memory = (high_water() - before) / 1024
    started = time.perf_counter()
    correct = {
        name: sum(identify(row) == name for row in rows) / max(1, len(rows)) for name, rows in texts.items()
    }
    count = sum(map(len, texts.values()))
    rate = count / (time.perf_counter() - started)
    print(
        f"{detector}: mean {100 * sum(correct.values()) / len(correct):.1f}% right; loads in {loading:.2f} s, {memory:.0f} MB, {rate:,.0f} sentences/s"
    )
    print("   ", {name: round(100 * share, 1) for name, share in correct.items()})


def high_water() -> int:
    """Return the peak resident memory of this process in KiB, as recorded by Linux."""
    match = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(match[1]) if match else 0


def detector_of(name: str):
    if name == "py3langid":
        from uwaga.languages.detection import LanguageIdentifier

        identifier = LanguageIdentifier()
        return lambda text: identifier.identify(text)[0]
    from heliport import Identifier

    other = Identifier()
    return lambda text: THREE.get(str(other.identify(text)).partition("_")[0], "?")


if __name__ == "__main__":
    main()

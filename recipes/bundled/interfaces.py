"""Collect the interface texts of the translated packages in interface_packages.tsv (unpacked by
interfaces.sh).

    python interfaces.py

Writes data/interfaces.tsv (English text, translation, how many sources have it, how many have another, the
sources) and data/interface_sources.tsv (the pairs of each source). Accelerators, a final colon and a final
ellipsis are taken off; English texts are compared without case, and of the spellings the commonest is kept.
Packages of one project are one source.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

from locales import Files, files_of, translations
from workplace import arguments, existing, rows

PACKAGES = Path(__file__).with_name("interface_packages.tsv")
PLACEHOLDER = re.compile(
    r"%\(?\w*\)?[sdifu%]|%\d+(?:\$\w)?|%[A-Z]|\{\{?[^{}]*\}?\}|\$\{?\w+\}?|\$\d|%@|@\w+|\[\[?\w+\]?\]|#\w+"
)
FORBIDDEN = re.compile(r"[<>{}|\\^~=_`]|[%$@#]\w|://|\w\(\)|&\w+;|\n\n")
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
ENGLISH = set("the of and is for with are this have you not your from please".split())
LONGEST = 160


def clean(text: str) -> str:
    """Return a text without accelerators, enclosing tags and invisible characters."""
    text = html.unescape(text).replace("\u00ad", "").replace("\u200b", "")
    text = re.sub(r"\s*\([&_~]\w\)", "", text)
    text = re.sub(r"&(?=\w)|(?<=\w)&(?=\w)|~(?=\w)", "", text)
    if text.count("_") == 1 and not re.fullmatch(r"[a-z]+_[a-z]+", text):
        text = text.replace("_", "")
    text = unicodedata.normalize("NFC", text).replace("...", "…")
    return " ".join(text.split())


def bare(text: str) -> str:
    """Return a text without a final colon or ellipsis."""
    return re.sub(r"\s*[:…]+$", "", text)


def usable(source: str, target: str) -> bool:
    """Return True if the two texts look like an English text and its translation."""
    if not source or not target or len(source) > LONGEST or len(target) > 2 * LONGEST:
        return False
    words, target_words = WORD.findall(source), WORD.findall(target)
    if not words or not target_words or FORBIDDEN.search(source) or FORBIDDEN.search(target):
        return False
    if any(ord(c) > 0x24F and c.isalpha() for c in source + target) or re.search(r"[äöüßÄÖÜ]", source):
        return False
    if not 0.3 < (len(target) + 6) / (len(source) + 6) < 3:
        return False
    if (source[-1] in ".!?") != (target[-1] in ".!?") or sorted(re.findall(r"\d+", source)) != sorted(
        re.findall(r"\d+", target)
    ):
        return False
    if re.fullmatch(r"[a-z]+(?:[A-Z][a-z]*|[._-][a-z]+)+|[a-z]{0,3}|.", source) and source not in (
        "no",
        "yes",
        "ok",
    ):
        return False
    lower = {word.lower() for word in target_words}
    return len(words) <= 2 or (len(lower & ENGLISH) < 2 and source.lower() != target.lower())


def pairs_of(name: str, paths: list[Path]) -> set[tuple[str, str]]:
    """Return the pairs of all packages of a source."""
    files: Files = {}
    for path in paths:
        files |= files_of(path)
    pairs = set()
    for source, target in translations(files):
        source, target = clean(source), clean(target)
        if (source[-1:] in ":…") == (target[-1:] in ":…") or len(source) < 30:
            source, target = bare(source), bare(target)
            if usable(source, target):
                pairs.add((source, target))
    print(name, len(pairs), flush=True)
    return pairs


def main() -> None:
    work = arguments(__doc__).parse_args().work
    spellings: dict[str, Counter[str]] = defaultdict(Counter)  # of an English text without case
    votes: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    paths: dict[str, list[Path]] = defaultdict(list)
    for registry, package, name, _ in rows(PACKAGES):
        path = work / "interfaces" / registry / package.replace("/", "+")
        wheel = path.with_name(path.name + ".whl")
        paths[name].append(wheel if wheel.exists() else existing(path, "interfaces.sh unpacks it"))
    counts: Counter[str] = Counter()
    for name, folders in paths.items():
        for source, target in pairs_of(name, folders):
            spellings[source.lower()][source] += 1
            votes[source.lower()][target].add(name)
            counts[name] += 1
    with (work / "data/interfaces.tsv").open("w", encoding="utf-8") as file:
        for key in sorted(votes, key=lambda key: -sum(map(len, votes[key].values()))):
            source = max(spellings[key], key=lambda text: (spellings[key][text], text))
            everyone = set().union(*votes[key].values())
            for target, sources in sorted(votes[key].items(), key=lambda item: (-len(item[1]), item[0])):
                others = len(everyone - sources)
                print(source, target, len(sources), others, ",".join(sorted(sources)), sep="\t", file=file)
    with (work / "data/interface_sources.tsv").open("w", encoding="utf-8") as file:
        for package, count in counts.most_common():
            print(package, count, sep="\t", file=file)


if __name__ == "__main__":
    main()

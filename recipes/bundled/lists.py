"""Read texts and words from lists in special formats: two games, a dictionary, Unicode's names."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from paragraphs import Pairs, by_sentence
from workplace import open_text


def read_text(src: Path) -> list[tuple[str, Pairs]]:
    """Return the name and the pairs of each package of texts."""
    return [("freeorion-data", freeorion(src)), ("hedgewars-data", hedgewars(src))]


def read_words(src: Path) -> list[tuple[str, Pairs]]:
    """Return the name and the pairs of each package of words."""
    return [("trans-de-en", ding(src)), ("unicode-cldr-core", cldr(src))]


def freeorion(src: Path) -> Pairs:
    """Yield the pairs of FreeOrion.

    In its files, a line with a key is followed by its text, on one line or, between three quotes, on several.
    """
    root = src / "freeorion-data/usr/share/games/freeorion/default/stringtables"

    def read(path: Path) -> dict[str, str]:
        text = path.read_text(encoding="utf-8", errors="replace")
        sections = re.findall(r"^([A-Z][A-Z0-9_]+)[ \t]*\n(?:'''(.*?)'''|([^\n]*))", text, re.M | re.S)
        return {key: long or short for key, long, short in sections}

    german = read(root / "de.txt")
    for key, source in read(root / "en.txt").items():
        if key in german:
            yield from by_sentence(source, german[key])


def hedgewars(src: Path) -> Pairs:
    root = src / "hedgewars-data/usr/share/games/hedgewars/Data/Locale"
    for match in re.finditer(
        r'^\s*\["((?:[^"\\]|\\.)*)"\]\s*=\s*"((?:[^"\\]|\\.)*)"', (root / "de.lua").read_text("utf-8"), re.M
    ):
        yield from by_sentence(match[1].replace('\\"', '"'), match[2].replace('\\"', '"'))
    for name in ("missions", "campaigns"):
        merged = []
        for language in ("en", "de"):
            text = (root / f"{name}_{language}.txt").read_text("utf-8")
            merged.append(dict(re.findall(r"^([\w.-]+)=\"?(.*?)\"?$", text, re.M)))
        for key, source in merged[0].items():
            if key in merged[1]:
                yield from by_sentence(source, merged[1][key])


_NOTE = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|<[^>]*>|/[^/]*/")
_PLACEHOLDER = re.compile(r"\b(jdn|jdm|jds|jd|etw|sb|sth|so|o\.s|esp|bes)\b\.?")


def ding(src: Path) -> Pairs:
    """Yield the pairs of the dictionary trans-de-en: ``form; synonym | next entry :: form; synonym
    | next entry``.
    """
    path = next((src / "trans-de-en/usr/share/trans").glob("de-en*"))
    with open_text(path, "rt") as text:
        for line in text:
            if line.startswith("#") or " :: " not in line:
                continue
            german, english = line.rstrip("\n").split(" :: ", 1)
            left, target = german.split("|"), english.split("|")
            if len(left) != len(target):
                continue
            for number, (de, en) in enumerate(zip(left, target, strict=True)):
                noun = re.search(r"\{([mfn])\}", de) if number == 0 else None
                des = [" ".join(_NOTE.sub(" ", part).split()) for part in de.split(";")]
                ens = [" ".join(_NOTE.sub(" ", part).split()) for part in en.split(";")]
                for index, word in enumerate(ens[:2]):
                    mate = des[0]
                    if not word or not mate or _PLACEHOLDER.search(word) or _PLACEHOLDER.search(mate):
                        continue
                    yield word, mate
                    if noun and index == 0 and " " not in mate and " " not in word and word[0].islower():
                        article = {"m": "der", "f": "die", "n": "das"}[noun[1]]
                        yield f"the {word}", f"{article} {mate}"


def cldr(src: Path) -> Pairs:
    """Yield the names of emoji, countries, languages, months and so on."""
    root = src / "unicode-cldr-core/usr/share/unicode/cldr/common"
    for folder in ("annotations", "annotationsDerived"):
        names = []
        for language in ("en", "de"):
            tree = ElementTree.parse(root / folder / f"{language}.xml")
            names.append(
                {a.get("cp"): a.text or "" for a in tree.iter("annotation") if a.get("type") == "tts"}
            )
        for key, source in names[0].items():
            if key in names[1] and ":" not in source:
                yield source, names[1][key]
    fields = []
    for language in ("en", "de"):
        tree = ElementTree.parse(root / "main" / f"{language}.xml")
        entries = {}
        for kind in ("territory", "language", "script", "exemplarCity"):
            for item in tree.iter(kind):
                entries[kind, item.get("type"), item.get("alt")] = item.text or ""
        for zone in tree.iter("zone"):
            city = zone.find("exemplarCity")
            if city is not None:
                entries["city", zone.get("type"), None] = city.text or ""
        fields.append(entries)
    for index, name in fields[0].items():
        if index in fields[1] and name:
            yield name, fields[1][index]

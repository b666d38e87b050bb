"""Write the table of sources and licences for the model card.

    python sources.py

Writes SOURCES.md into the work folder: every package whose text is in the training data, with its version,
the licences that its copyright file names (the commonest first) and the pairs kept of it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import wordnet
from workplace import arguments, existing, rows

MAX_NAMES = 5
BILINGUAL_PACKAGES = {  # two packages, one a language, count under one name
    "debian-reference": ["debian-reference-en", "debian-reference-de"],
    "developers-reference": ["developers-reference", "developers-reference-de"],
    "maint-guide": ["maint-guide", "maint-guide-de"],
    "libreoffice-help-de": ["libreoffice-help-de", "libreoffice-help-en-us"],
}
HEAD = """\
Debian 12's packages, with the licences that their copyright files name (the commonest first); the pairs are
those kept after cleaning, of which the training data may hold a sample.

| source | version | pairs | licences |
|---|---|---|---|
"""
TAIL = """
Kept out: whatever equals a sentence of Tatoeba's dev or test set or of any split of Multi30k (either
language; letters and digits compared, case and punctuation not). The dictionary of the package
hunspell-de-de (GPL-2, GPL-3) told known words from unknown ones, and WordNet's definitions usual words
from rare ones; no text of the first is trained on. Looked at and left out: stellarium-data (some of its
texts are NC or ND), debian-faq (a permission of its own), FreeDict's eng-deu (made from the dictionary
of trans-de-en).
"""


def version(work: Path, package: str) -> str:
    archives = sorted((work / "debs").glob(f"{package}_*.deb"))
    path = (
        archives[0] if archives else existing(work / f"debs/{package}_VERSION.deb", "download.sh fetches it")
    )
    command = ["dpkg-deb", "-f", str(path), "Version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def licences(work: Path, package: str) -> str:
    path = work / f"src/{package}/usr/share/doc/{package}/copyright"
    if not path.exists():
        return "see its copyright file"
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = re.findall(r"^License:[ \t]*(\S[^\n]*)", text, re.MULTILINE)
    named = Counter(name for line in lines for name in re.split(r",?\s+(?:and|or)\s+", line.strip()))
    if named:
        more = ", others" if len(named) > MAX_NAMES else ""
        return ", ".join(name for name, _ in named.most_common(MAX_NAMES)) + more
    links = sorted(set(re.findall(r"/usr/share/common-licenses/([\w.-]+\w)", text)))
    return ", ".join(links) or "see its copyright file"


def package_rows(work: Path, counts: dict[str, int]) -> list[tuple[str, str, int, str]]:
    """Return the names, versions, numbers of pairs and licences, by decreasing number of pairs.

    The packages of Wesnoth are one row.
    """
    lines = []
    wesnoth = [name for name in counts if name.startswith("wesnoth-")]
    for package, pairs in counts.items():
        if package not in wesnoth:
            names = BILINGUAL_PACKAGES.get(package, [package])
            lines.append((", ".join(names), version(work, names[0]), pairs, licences(work, names[0])))
    if wesnoth:
        pairs = sum(counts[name] for name in wesnoth)
        text = f"wesnoth-1.16-data and {len(wesnoth) - 1} of its campaigns"
        lines.append((text, version(work, wesnoth[0]), pairs, licences(work, wesnoth[0])))
    return sorted(lines, key=lambda row: -row[2])


def main() -> None:
    work = arguments(__doc__).parse_args().work
    report = json.loads(
        existing(work / "data/report.json", "prepare.py makes it").read_text(encoding="utf-8")
    )
    table_rows = package_rows(work, report["packages"])
    tatoeba = "Tatoeba (tatoeba.org), through manythings.org/anki"
    table_rows.append((tatoeba, "2018-05-13", report["tatoeba"]["pairs"], "CC BY 2.0"))
    template_label = "our own templates (made_up.py, values.py): values to copy; plain scenes"
    copies = sum(sum(1 for _ in rows(work / f"data/{name}.copy.tsv")) for name in ("more", "final"))
    pair_count = report["copy"]["pairs"] + copies + report["scenes"]["pairs"]
    table_rows.append((template_label, "", pair_count, "the project's own"))
    phrases = sum(1 for _ in rows(work / "data/phrases.tsv", "final_stage.py makes it"))
    table_rows.append(("our own everyday phrases (phrases.tsv)", "", phrases, "the project's own"))
    examples = set(wordnet.examples(work))
    distilled = [
        row[0] for name in ("own", "own2") for row in rows(work / f"data/{name}.tsv", "own.py makes it")
    ]
    example_count = sum(source in examples for source in distilled)
    text = "the model's own translations (own.py), of sentences of Tatoeba, our templates and WordNet"
    table_rows.append((text, "", len(distilled) - example_count, "those of its sources"))
    text = "WordNet 3.0 (wordnet-base): example sentences, translated by the model"
    table_rows.append(
        (text, version(work, "wordnet-base"), example_count, "WordNet's own (Princeton University)")
    )
    table = "".join(
        f"| {name} | {content} | {pairs:,} | {licence} |\n" for name, content, pairs, licence in table_rows
    )
    (work / "SOURCES.md").write_text(HEAD + table + TAIL, encoding="utf-8")
    print(f"{work / 'SOURCES.md'}: {len(table_rows)} sources")


if __name__ == "__main__":
    main()

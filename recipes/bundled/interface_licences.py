"""Write the licences of the sources of interface texts for the model card.

    python interface_licences.py

Writes INTERFACES.md into the work folder. The licence of a package is the one that interface_packages.tsv
names: of Debian's the first of its copyright file, of npm's and PyPI's that of its metadata. A source of
several packages has the strictest.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from interface_stage import best, groups
from interfaces import PACKAGES
from workplace import arguments, rows

CLASSES = ("permissive", "LGPL or MPL", "GPL or AGPL")
REGISTRIES = {"debian": "Debian 12", "npm": "npm", "pypi": "PyPI"}


def strictness(licence: str) -> int:
    """Return the number of a licence's class; of alternatives ("or"), the least strict counts."""
    choices = re.split(r"\s+(?:or|OR)\s+(?!later)|/(?=\s)", licence)
    return min(map(_strictness, choices))


def _strictness(licence: str) -> int:
    if re.search(r"(?<!L)GPL|(?<!Lesser )General Public", re.sub(r"with-GPL2.*", "", licence), re.IGNORECASE):
        return 2
    return 1 if re.search(r"LGPL|Lesser|MPL|Mozilla|EPL", licence) else 0


def main() -> None:
    work = arguments(__doc__).parse_args().work
    packages = list(rows(PACKAGES))
    classes: dict[str, int] = {}
    for _, _, source, licence in packages:
        classes[source] = max(classes.get(source, 0), strictness(licence))
    counts = {source: int(count) for source, count in rows(work / "data/interface_sources.tsv")}
    freest: dict[bool, Counter[int]] = {True: Counter(), False: Counter()}
    translations = {
        (row[0], row[1]): row[4].split(",")
        for row in rows(work / "data/interfaces.tsv", "interfaces.py makes it")
    }
    for source, texts in groups(work):
        target, votes = best(source, texts)
        spellings = (target, target[:1].lower() + target[1:])
        having = {name for text in spellings for name in translations.get((source, text), ())}
        freest[votes > 1][min(classes[name] for name in having)] += 1
    lines = [
        "| licence | sources | pairs | texts of several sources | texts of one |",
        "|---|---|---|---|---|",
    ]
    for number, name in enumerate(CLASSES):
        of_class = [source for source, value in classes.items() if value == number]
        shares = [
            f"{freest[several][number]:,} ({100 * freest[several][number] / freest[several].total():.0f}%)"
            for several in (True, False)
        ]
        pairs = sum(counts.get(source, 0) for source in of_class)
        lines.append(f"| {name} | {len(of_class)} | {pairs:,} | {shares[0]} | {shares[1]} |")
    lines.append("")
    names: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for registry, package, _, licence in packages:
        names[registry][licence].append(package)
    for registry, label in REGISTRIES.items():
        listed = (
            f"{', '.join(names_of_licence)} ({licence})"
            for licence, names_of_licence in sorted(names[registry].items())
        )
        lines += [f"{label}: {'; '.join(listed)}.", ""]
    (work / "INTERFACES.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines[:5]))


if __name__ == "__main__":
    main()

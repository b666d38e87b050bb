"""Read manuals and help whose packages contain the same pages in English and German."""

from __future__ import annotations

from pathlib import Path

from paragraphs import Pairs, pages


def read(src: Path) -> list[tuple[str, Pairs]]:
    """Return the name and the pairs of each package."""
    return [
        ("installation-guide-amd64", installation_guide(src)),
        ("debian-handbook", handbook(src)),
        ("debian-reference", paired_pages(src, "debian-reference-en", "debian-reference-de")),
        ("developers-reference", paired_pages(src, "developers-reference", "developers-reference-de")),
        ("maint-guide", paired_pages(src, "maint-guide", "maint-guide-de")),
        ("gnome-user-docs", gnome_help(src)),
        ("libreoffice-help-de", office_help(src)),
    ]


def installation_guide(src: Path) -> Pairs:
    root = src / "installation-guide-amd64/usr/share/doc/installation-guide-amd64"
    return pages([(path, root / "de" / path.name) for path in sorted((root / "en").glob("*.html"))])


def handbook(src: Path) -> Pairs:
    root = src / "debian-handbook/usr/share/doc/debian-handbook/html"
    return pages([(path, root / "de-DE" / path.name) for path in sorted((root / "en-US").glob("*.html"))])


def paired_pages(src: Path, package_en: str, package_de: str) -> Pairs:
    """Yield the pairs of HTML manuals of the Debian documentation project.

    The page page.en.html or page.html is beside page.de.html.
    """
    german = {p.name.replace(".de.html", ".html"): p for p in (src / package_de).rglob("*.de.html")}
    for path in (src / package_de).rglob("*.html"):
        german.setdefault(path.name, path)
    english: dict[str, Path] = {}
    for path in sorted((src / package_en).rglob("*.html")):
        english[path.name.replace(".en.html", ".html")] = path
    return pages([(path, german[name]) for name, path in sorted(english.items()) if name in german])


def gnome_help(src: Path) -> Pairs:
    root = src / "gnome-user-docs/usr/share/help"
    paths = sorted((root / "C").rglob("*.page"))
    return pages([(path, root / "de" / path.relative_to(root / "C")) for path in paths])


def office_help(src: Path) -> Pairs:
    german = src / "libreoffice-help-de/usr/share/libreoffice/help/de"
    english = src / "libreoffice-help-en-us/usr/share/libreoffice/help/en-US"
    return pages([(path, german / path.relative_to(english)) for path in sorted(english.rglob("*.html"))])

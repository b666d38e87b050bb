"""Hooks of mkdocs: the course in several languages, English in ``docs/learn``, Spanish in ``docs/learn/es``.

The navigation of the course is made from its files. A page is shown in its language, with the chapters in
that language in the navigation. The labels of a figure are those of the language's ``figures.yaml``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File
from mkdocs.structure.nav import Link, Section

from uwaga.errors import SettingsError
from uwaga.settings.parsing import StrictModel, parse
from uwaga.settings.yaml_text import read_yaml

DOCS = Path(__file__).resolve().parent
COURSE = "learn"
NAMES = {"en": "English", "es": "Español", "pl": "Polski", "zh": "中文"}
"""Languages of the course by their codes, as the theme has them; English is in no folder of its own."""
GLOSSARY = {"es": "Glosario", "pl": "Słowniczek", "zh": "术语表"}
"""Names of the glossary, which is one page for all languages."""
_shown: dict[str, list[Any]] = {}  # the course's part of the navigation by language


class Labels(StrictModel):
    """The labels of all figures in a language: translations by the English labels, and labels that stay."""

    labels: dict[str, str]
    same: list[str]


def language_of(uri: str) -> str:
    """Return the language of a page."""
    parts = PurePosixPath(uri).parts
    return parts[1] if len(parts) > 2 and parts[0] == COURSE and parts[1] in NAMES else "en"


def folder_of(language: str) -> str:
    """Return the folder of the course in a language."""
    return COURSE if language == "en" else f"{COURSE}/{language}"


def course_pages(language: str) -> list[str]:
    """Return the pages of the course in a language that are there, in their order."""
    names = [path.name for path in (DOCS / folder_of(language)).glob("*.md")]
    names.sort(key=lambda name: (name != "index.md", name != "laboratory.md", not name[0].isdigit(), name))
    return [f"{folder_of(language)}/{name}" for name in names]


def translated_figure(svg: str, known: Labels) -> tuple[str, list[str]]:
    """Return a figure with the labels of a language, and its labels that the language lacks.

    Labels without a word of two letters and those of the class ``code`` stay.
    """
    lacking: list[str] = []

    def put(found: re.Match[str]) -> str:
        start, text, end = found.groups()
        english = html.unescape(text)
        look = re.search(r'class="([^"]*)"', start)
        is_code = look is not None and "code" in look[1].split()
        if english in known.labels and not is_code:
            return f"{start}{html.escape(known.labels[english], quote=False)}{end}"
        if re.search(r"[^\W\d_]{2,}", english) and not is_code and english not in known.same:
            lacking.append(english)
        return found[0]

    return re.sub(r"(<(?:text|title)\b[^>]*>)(.*?)(</(?:text|title)>)", put, svg), lacking


def translated_figures(language: str) -> Iterable[tuple[str, str]]:
    """Yield the name and the content of each figure of the course in a language.

    Raises:
        SettingsError: the language's ``figures.yaml`` lacks a label.
    """
    path = DOCS / folder_of(language) / "figures.yaml"
    known = parse(Labels, read_yaml(path), str(path)) if path.exists() else None
    lacking: dict[str, str] = {}
    for figure in sorted((DOCS / "figures" / COURSE).glob("c*.svg")):
        svg = figure.read_text(encoding="utf-8")
        if known is not None:
            svg, without = translated_figure(svg, known)
            lacking |= dict.fromkeys(without, figure.name)
        yield f"figures/{COURSE}/{figure.stem}.{language}.svg", svg
    if lacking:
        told = "; ".join(f"{label!r} ({name})" for label, name in lacking.items())
        raise SettingsError(f"{path}: no translation of {told}: add it to labels, or to same if it stays")


def _languages() -> list[str]:
    """Return the languages other than English that have pages."""
    return [one for one in NAMES if one != "en" and course_pages(one)]


def on_config(config: Any) -> Any:
    """List the course's pages in the navigation, those of each language in a section of its own."""
    pages: list[Any] = course_pages("en")
    pages += [{NAMES[language]: course_pages(language)} for language in _languages()]
    config["nav"] = [{"Learn": pages} if entry == {"Learn": COURSE} else entry for entry in config["nav"]]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the figures in each language."""
    for language in _languages():
        for name, svg in translated_figures(language):
            files.append(File.generated(config, name, content=svg))
    return files


def on_nav(nav: Any, **_: Any) -> Any:
    """Keep one course for each language: previous and next do not leave a language."""
    course = next(item for item in nav.items if item.title == "Learn")
    chapters = {
        code: item.children
        for item in course.children
        for code, name in NAMES.items()
        if isinstance(item, Section) and item.title == name
    }
    english = [item for item in course.children if not isinstance(item, Section)]
    chapters = {"en": english, **chapters}
    english[-1].next_page = after = list(chapters.values())[-1][-1].next_page
    after.previous_page = english[-1]
    for language, pages in chapters.items():
        if language != "en":
            pages[0].previous_page = pages[-1].next_page = None
    for language, pages in chapters.items():
        if language != "en":
            pages = [*pages, Link(GLOSSARY[language], f"{COURSE}/glossary/")]
        others = [Link(NAMES[one], chapters[one][0].url) for one in chapters if one != language]
        _shown[language] = [*pages, *others]
    return nav


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link a chapter that is not translated yet in English, and leave translations out of the search.

    The index of the search is one file, which every reader who searches would have to fetch.
    """
    language = language_of(page.file.src_uri)
    if language == "en":
        return markdown
    page.meta["search"] = {"exclude": True}
    folder = DOCS / folder_of(language)

    def target(found: re.Match[str]) -> str:
        return found[0] if (folder / found[1]).exists() else f"](../{found[1]}"

    return re.sub(r"\]\(([\w-]+\.md)", target, markdown)


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """Show a page in its language, with links to its other languages."""
    language = language_of(page.file.src_uri)
    config.theme["language"] = language
    next(item for item in nav.items if item.title == "Learn").children = _shown[language]
    name = PurePosixPath(page.file.src_uri).name
    pages = {one: f"{folder_of(one)}/{name}" for one in NAMES}
    if page.file.src_uri in pages.values():
        known = {item.file.src_uri: item.url for items in _shown.values() for item in items if item.is_page}
        context["languages"] = [
            (one, NAMES[one], known[uri]) for one, uri in pages.items() if one != language and uri in known
        ]
    return context


def on_post_page(output: str, config: Any, **_: Any) -> str:
    """Put the theme's language back."""
    config.theme["language"] = "en"
    return output

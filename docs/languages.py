"""Hooks of mkdocs: the course in several languages, English in ``docs/learn``, Spanish in ``docs/learn/es``.

The navigation of the course is generated from its files. A page is shown in its language, with the chapters
of that language in the navigation, and searches in an index of its language. The labels of figures are
translated by the language's ``figures.yaml``.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

from material.plugins.search.plugin import SearchIndex
from mkdocs.structure.files import File
from mkdocs.structure.nav import Link, Section

from uwaga.errors import SettingsError
from uwaga.settings.parsing import StrictModel, parse
from uwaga.settings.yaml_text import read_yaml

DOCS = Path(__file__).resolve().parent
COURSE = "learn"
NAMES = {"en": "English", "es": "Español", "pl": "Polski", "zh": "中文"}
"""Names of the languages of the course, by the theme's codes; English has no folder."""
GLOSSARY = {"es": "Glosario", "pl": "Słowniczek", "zh": "术语表"}
"""Names of the glossary, which is one page for all languages."""
TITLES = {
    "es": {
        "Home": "Inicio",
        "Learn": "Aprender",
        "Use": "Usar",
        "Reference": "Referencia",
        "Inside": "Por dentro",
        "Light colours": "Colores claros",
        "Dark colours": "Colores oscuros",
    },
    "pl": {
        "Home": "Strona główna",
        "Learn": "Nauka",
        "Use": "Użycie",
        "Reference": "Dokumentacja API",
        "Inside": "Od środka",
        "Light colours": "Jasne kolory",
        "Dark colours": "Ciemne kolory",
    },
    "zh": {
        "Home": "首页",
        "Learn": "学习",
        "Use": "使用",
        "Reference": "参考",
        "Inside": "内部",
        "Light colours": "浅色",
        "Dark colours": "深色",
    },
}
"""Titles of the site's sections and names of its switches, shown on the pages of the course."""
SEPARATORS = {
    "es": r"[\s\-.,;:!?()\[\]«»„”“…¿¡]+",
    "pl": r"[\s\-.,;:!?()\[\]«»„”“…]+",
    "zh": r"[\s\u200b\u3000\-、。，．？！；：（）“”]+",
}
"""Patterns of the text between words, for the languages other than English."""
LEAF = re.compile(r"<(span|mi|mn|mo)\b(?![^>]*data-search-exclude)[^>]*>([^<]*)</\1>")
"""An element that only marks up a text; most elements are of highlighted code or equations."""
LUNR = "assets/javascripts/lunr"
"""Folder of the scripts that the theme's search loads for a language."""
_navigation: dict[str, list[Any]] = {}  # the course's part of the navigation by language
_titles: list[tuple[Any, str]] = []  # the sections of the site with their English titles
_indexes: dict[str, SearchIndex] = {}  # what is searched on the pages of a language


class Labels(StrictModel):
    """The labels of all figures in a language: translations by English label, and untranslated labels."""

    labels: dict[str, str]
    same: list[str]


def language_of(uri: str) -> str:
    """Return the language of a page."""
    parts = PurePosixPath(uri).parts
    return parts[1] if len(parts) > 2 and parts[0] == COURSE and parts[1] in NAMES else "en"


def course_folder(language: str) -> str:
    """Return the folder of the course in a language."""
    return COURSE if language == "en" else f"{COURSE}/{language}"


def course_pages(language: str) -> list[str]:
    """Return the existing pages of the course in a language, in order."""
    names = [path.name for path in (DOCS / course_folder(language)).glob("*.md")]
    names.sort(key=lambda name: (name != "index.md", name != "laboratory.md", not name[0].isdigit(), name))
    return [f"{course_folder(language)}/{name}" for name in names]


def translated_figure(svg: str, labels: Labels) -> tuple[str, list[str]]:
    """Return a figure with translated labels, and its labels without a translation.

    Labels without a word of two letters and those of the class ``code`` are kept.
    """
    missing: list[str] = []

    def translate_label(match: re.Match[str]) -> str:
        start, text, end = match.groups()
        english = html.unescape(text)
        style = re.search(r'class="([^"]*)"', start)
        is_code = style is not None and "code" in style[1].split()
        if english in labels.labels and not is_code:
            return f"{start}{html.escape(labels.labels[english], quote=False)}{end}"
        if re.search(r"[^\W\d_]{2,}", english) and not is_code and english not in labels.same:
            missing.append(english)
        return match[0]

    return re.sub(r"(<(?:text|title)\b[^>]*>)(.*?)(</(?:text|title)>)", translate_label, svg), missing


def translated_figures(language: str) -> Iterable[tuple[str, str]]:
    """Yield the name and the content of each figure of the course in a language.

    Raises:
        SettingsError: the language's ``figures.yaml`` lacks a label.
    """
    path = DOCS / course_folder(language) / "figures.yaml"
    labels = parse(Labels, read_yaml(path), str(path)) if path.exists() else None
    missing: dict[str, str] = {}
    for figure in sorted((DOCS / "figures" / COURSE).glob("c*.svg")):
        svg = figure.read_text(encoding="utf-8")
        if labels is not None:
            svg, missing_labels = translated_figure(svg, labels)
            missing |= dict.fromkeys(missing_labels, figure.name)
        yield f"figures/{COURSE}/{figure.stem}.{language}.svg", svg
    if missing:
        details = "; ".join(f"{label!r} ({name})" for label, name in missing.items())
        raise SettingsError(f"{path}: no translation of {details}: add it to labels, or to same if it stays")


def _languages() -> list[str]:
    """Return the languages other than English that have pages."""
    return [code for code in NAMES if code != "en" and course_pages(code)]


def on_config(config: Any) -> Any:
    """Add the course's pages to the navigation, with a section for each language."""
    pages: list[Any] = course_pages("en")
    pages += [{NAMES[language]: course_pages(language)} for language in _languages()]
    config["nav"] = [{"Learn": pages} if entry == {"Learn": COURSE} else entry for entry in config["nav"]]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the translated figures of each language."""
    for language in _languages():
        for name, svg in translated_figures(language):
            files.append(File.generated(config, name, content=svg))
    return files


def on_nav(nav: Any, **_: Any) -> Any:
    """Split the course by language, so that the previous and next links stay in a language."""
    _titles[:] = [(item, item.title) for item in nav.items]
    course = _course()
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
        links = [Link(NAMES[code], chapters[code][0].url) for code in chapters if code != language]
        _navigation[language] = [*pages, *links]
    return nav


def _course() -> Any:
    """Return the section of the course."""
    return next(item for item, title in _titles if title == "Learn")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link to the English version of untranslated chapters; leave the search to :func:`_add_to_search`."""
    page.meta["search"] = {"exclude": True}
    language = language_of(page.file.src_uri)
    if language == "en":
        return markdown
    folder = DOCS / course_folder(language)

    def target(match: re.Match[str]) -> str:
        return match[0] if (folder / match[1]).exists() else f"](../{match[1]}"

    return re.sub(r"\]\(([\w-]+\.md)", target, markdown)


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    """Show a page in its language, with links to its other languages, and add it to its language's search."""
    language = language_of(page.file.src_uri)
    config.theme["language"] = language
    titles = TITLES.get(language, {})
    for item, title in _titles:
        item.title = titles.get(title, title)
    for palette, name in zip(config.theme["palette"], ("Dark colours", "Light colours"), strict=True):
        palette["toggle"]["name"] = titles.get(name, name)
    _course().children = _navigation[language]
    _add_to_search(page, language)
    context["search_index"] = "search_index.json" if language == "en" else f"search_index.{language}.json"
    name = PurePosixPath(page.file.src_uri).name
    pages = {code: f"{course_folder(code)}/{name}" for code in NAMES}
    if page.file.src_uri in pages.values():
        urls = {
            item.file.src_uri: item.url for items in _navigation.values() for item in items if item.is_page
        }
        context["languages"] = [
            (code, NAMES[code], urls[uri]) for code, uri in pages.items() if code != language and uri in urls
        ]
    return context


def _add_to_search(page: Any, language: str) -> None:
    """Add a page to the index of its language, and the glossary to all.

    The theme's parser is slow, and leaves out most elements; those without others are left out before.
    """
    content = LEAF.sub(r"\2", page.content)
    indexed = SimpleNamespace(content=content, meta={}, title=page.title, toc=page.toc, url=page.url)
    is_glossary = page.file.src_uri == f"{COURSE}/glossary.md"
    for code in NAMES if is_glossary else (language,):
        _indexes.setdefault(code, SearchIndex()).add_entry_from_context(indexed)


def segment_chinese(text: str, terms: list[str]) -> str:
    """Return a Chinese text with invisible spaces around terms and all other characters, for searching."""
    words = "|".join(map(re.escape, sorted(terms, key=len, reverse=True)))
    return re.sub(rf"({words}|[\u4e00-\u9fff])", "\u200b\\1\u200b", text).replace("\u200b\u200b", "\u200b")


def on_post_build(config: Any, **_: Any) -> None:
    """Write the index of each language, and the scripts that it needs."""
    site, theme = Path(config["site_dir"]), Path(config.theme.dirs[-2])
    head, *rows = (DOCS / COURSE / "glossary.tsv").read_text(encoding="utf-8").splitlines()
    column = head.split("\t").index("zh")
    terms = [row.split("\t")[column] for row in rows]
    fields = {"title": {"boost": 1e3}, "text": {"boost": 1.0}, "tags": {"boost": 1e6}}
    shutil.rmtree(site / LUNR, ignore_errors=True)
    (site / LUNR / "min").mkdir(parents=True)
    for name in ("stemmer.support", "zh"):
        shutil.copyfile(theme / LUNR / f"min/lunr.{name}.min.js", site / LUNR / f"min/lunr.{name}.min.js")
    for name in ("es", "pl"):
        shutil.copyfile(DOCS / "look/inflected.js", site / LUNR / f"min/lunr.{name}.min.js")
    english = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))
    _write_index(site / "search/search_index.json", english | {"docs": _indexes.pop("en").entries})
    for language, index in _indexes.items():
        if language == "zh":
            for entry in index.entries:
                entry.update({key: segment_chinese(entry[key], terms) for key in ("title", "text")})
        settings = {
            "lang": [language],
            "separator": SEPARATORS[language],
            "pipeline": ["stemmer"],
            "fields": fields,
        }
        data = {"config": settings, "docs": index.entries}
        _write_index(site / f"search/search_index.{language}.json", data)
    _indexes.clear()


def _write_index(path: Path, data: dict[str, Any]) -> None:
    """Write an index of texts without markup; a search result shows two lines of a text."""
    for entry in data["docs"]:
        text = re.sub(r"</?(?:code|p|pre|ul|ol|li|h\d)>", " ", entry["text"])
        for key, value in (("title", entry["title"]), ("text", text)):
            entry[key] = re.sub(r"\s+", " ", value).strip()
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def on_post_page(output: str, config: Any, **_: Any) -> str:
    """Reset the theme's language."""
    config.theme["language"] = "en"
    return output

"""Replacement of the declared language of a document with the target language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from uwaga.languages.codes import base_language
from uwaga.markup.html import html_tokens
from uwaga_documents.document import DocumentOptions

CODE = r"([A-Za-z]{2,3}(?>(?:[-_][A-Za-z\d]{1,8}){0,4}))(?=[\"'\s/><]|\Z)"
LANGUAGE_ATTRIBUTE = re.compile(
    rf"""(\s(?:xml:)?lang\s*=\s*["']?|<w:lang\s+w:val=["']){CODE}""", re.IGNORECASE
)
LANGUAGE_ELEMENT = re.compile(rf"(<\w+:language(?:\s[^<>]*)?>\s*){CODE}", re.IGNORECASE)
LANGUAGE_META = re.compile(r"""=\s*["']?(?:content-language|og:locale)["'\s/>]""", re.IGNORECASE)
CONTENT_ATTRIBUTE = re.compile(rf"""(\scontent\s*=\s*["']?){CODE}""", re.IGNORECASE)
LANGUAGE = re.compile(r"""(\sfo:language=["'])([a-z]{2,3})(?=["'])""")
COUNTRY_ATTRIBUTE = re.compile(r"""(\sfo:country=["'])(?:[A-Z]{2}|none)(?=["'])""")
XML_TAG = re.compile(r"<[^<>]*>?")


def target_code(code: str, options: DocumentOptions) -> str:
    """Return the code of the target language if ``code`` is that of the source language; otherwise return
    ``code``.
    """
    if not options.source or not options.target or base_language(code) != base_language(options.source):
        return code
    return format_code(options.target, "_" if "_" in code else "-")


def format_code(code: str, separator: str) -> str:
    """Return a language code in the form used in documents, with a separator before the script and
    the region.
    """
    language, *subtags = re.split("[-_]", code)
    # Codes of NLLB include the script, and codes of mBART may have the region XX.
    parts = [] if len(language) == 3 else [subtag for subtag in subtags if subtag.upper() != "XX"]
    return separator.join([base_language(code), *parts])


def _opendocument_tag(tag: str, options: DocumentOptions) -> str:
    """Return an OpenDocument tag with the target language in its language and country attributes."""
    match = LANGUAGE.search(tag)
    if match is None or (code := target_code(match[2], options)) == match[2]:
        return tag
    language, _, country = code.partition("-")
    return COUNTRY_ATTRIBUTE.sub(rf"\g<1>{country or 'none'}", LANGUAGE.sub(rf"\g<1>{language}", tag))


def _replacer(options: DocumentOptions) -> Callable[[re.Match[str]], str]:
    return lambda match: match[1] + target_code(match[2], options)


def html_in_target(text: str, options: DocumentOptions) -> str:
    """Return a page with the target language in its ``lang`` attributes and ``meta`` elements."""
    if (
        not options.source
        or not options.target
        or not (LANGUAGE_ATTRIBUTE.search(text) or LANGUAGE_META.search(text))
    ):
        return text
    replace = _replacer(options)

    def parts() -> Iterator[str]:
        position = 0
        for token in html_tokens(text):
            if token.kind in ("open", "empty", "raw"):
                raw = text[token.start : token.inner]
                tag = LANGUAGE_ATTRIBUTE.sub(replace, raw)
                if token.name == "meta" and LANGUAGE_META.search(tag):
                    tag = CONTENT_ATTRIBUTE.sub(replace, tag)
                if tag != raw:
                    yield text[position : token.start] + tag
                    position = token.inner
        yield text[position:]

    return "".join(parts())


def xml_in_target(text: str, options: DocumentOptions) -> str:
    """Return an XML document with the target language in its language attributes and elements.

    The attribute ``lang`` and the corresponding attributes and elements of Word, OpenDocument and EPUB are
    replaced.
    """
    replace = _replacer(options)
    if ":language" in text:
        text = LANGUAGE_ELEMENT.sub(replace, text)
    if (
        not options.source
        or not options.target
        or not (LANGUAGE_ATTRIBUTE.search(text) or LANGUAGE.search(text))
    ):
        return text

    def parts() -> Iterator[str]:
        position = 0
        for match in XML_TAG.finditer(text):
            tag = _opendocument_tag(LANGUAGE_ATTRIBUTE.sub(replace, match[0]), options)
            if tag != match[0]:
                yield text[position : match.start()] + tag
                position = match.end()
        yield text[position:]

    return "".join(parts())

"""The declared language of a document, which becomes that of the translation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from uwaga.documents.document import DocumentOptions
from uwaga.languages.codes import base_language
from uwaga.markup.html import html_tokens

CODE = r"([A-Za-z]{2,3}(?>(?:[-_][A-Za-z\d]{1,8}){0,4}))(?=[\"'\s/><])"
DECLARED = re.compile(
    rf"""(\s(?:xml:)?lang\s*=\s*["']?|<w:lang\s+w:val=["']|<dc:language\b[^<>]*>\s*){CODE}""", re.IGNORECASE
)
META = re.compile(r"""=\s*["']?(?:content-language|og:locale)["'\s/>]""", re.IGNORECASE)
CONTENT = re.compile(rf"""(\scontent\s*=\s*["']?){CODE}""", re.IGNORECASE)
LANGUAGE = re.compile(r"""(\sfo:language=["'])([a-z]{2,3})(?=["'])""")
COUNTRY = re.compile(r"""(\sfo:country=["'])(?:[A-Z]{2}|none)(?=["'])""")
XML_TAG = re.compile(r"<(?:dc:language\b[^<>]*>)?[^<>]*>?")


def target_code(code: str, options: DocumentOptions) -> str:
    """Return the target language in place of the code of the source language; any other code as it is."""
    if not options.source or not options.target or base_language(code) != base_language(options.source):
        return code
    first, *rest = re.split("[-_]", options.target)
    # NLLB and mBART name the script, or no region
    parts = [] if len(first) == 3 else [one for one in rest if one.upper() != "XX"]
    return ("_" if "_" in code else "-").join([base_language(options.target), *parts])


def _opendocument_tag(tag: str, options: DocumentOptions) -> str:
    """Return a tag of OpenDocument, which names language and country apart, in the target language."""
    found = LANGUAGE.search(tag)
    if found is None or (code := target_code(found[2], options)) == found[2]:
        return tag
    language, _, country = code.partition("-")
    return COUNTRY.sub(rf"\g<1>{country or 'none'}", LANGUAGE.sub(rf"\g<1>{language}", tag))


def _changer(options: DocumentOptions) -> Callable[[re.Match[str]], str]:
    return lambda found: found[1] + target_code(found[2], options)


def html_in_target(text: str, options: DocumentOptions) -> str:
    """Return a page whose ``lang`` attributes and ``meta`` elements name the target language."""
    if not options.source or not options.target or not (DECLARED.search(text) or META.search(text)):
        return text
    change = _changer(options)

    def parts() -> Iterator[str]:
        at = 0
        for token in html_tokens(text):
            if token.kind in ("open", "empty", "raw"):
                written = text[token.start : token.inner]
                tag = DECLARED.sub(change, written)
                if token.name == "meta" and META.search(tag):
                    tag = CONTENT.sub(change, tag)
                if tag != written:
                    yield text[at : token.start] + tag
                    at = token.inner
        yield text[at:]

    return "".join(parts())


def xml_in_target(text: str, options: DocumentOptions) -> str:
    """Return an XML document whose ``lang`` attributes, and the like of Word, OpenDocument and EPUB, name the
    target language.
    """
    if not options.source or not options.target or not (DECLARED.search(text) or LANGUAGE.search(text)):
        return text
    change = _changer(options)

    def parts() -> Iterator[str]:
        at = 0
        for match in XML_TAG.finditer(text):
            tag = _opendocument_tag(DECLARED.sub(change, match[0]), options)
            if tag != match[0]:
                yield text[at : match.start()] + tag
                at = match.end()
        yield text[at:]

    return "".join(parts())

"""Any text is either rejected with a UwagaError, or read and written back unchanged."""

# ruff: noqa: E501 (a table of texts)

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from uwaga.errors import UwagaError
from uwaga.markup.formats import read_fragment
from uwaga.markup.inline import plain_text
from uwaga.markup.placeholders import resolve_placeholders
from uwaga.markup.units import BLANK_ENDS
from uwaga.tokenizers.sentences import split_sentences
from uwaga_documents import DocumentOptions, DocumentSource, Unit, find_format

SNIPPETS = [
    *("<b>", "</b>", "<a href='x'>", "<!--", "-->", "<br/>", "&amp;", "&", "<![CDATA[", "]]>", "<", ">", "\"", "'"),
    *("*", "**", "_", "`", "[a](b)", "![", "](", "# ", "- ", "> ", "|", "\n", "\r", "\r\n", "\t", "  ", "$", ":a:"),
    *("{n}", "{", "}", "%s", "%", "http://a.b", "1 kg", "{n, plural, one {#} other {a}}", "é", "漢", "\u0301", "a. B"),
    *("1\n00:00:01,000 --> 00:00:02,000\n", "WEBVTT\n\n", 'msgid "a"\nmsgstr ""\n', '{"a": "b c"}', "a: b c\n", "word"),
    *("\u2028", "\x00", "\x85", "---\n", "a,b\n", '"k" = "v";\n', "<p>", "</p>", "“", "\ufeff", "\u200d", "\\", "#"),
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=4)), max_size=30).map("".join)
FILE_NAMES = [
    "a.srt", "a.vtt", "a.yaml", "a.json", "a.po", "a.csv", "a.strings", "a.xlf", "a.txt", "a.md", "a.html",
]  # fmt: skip


@pytest.mark.parametrize("name", ["text", "html", "xml", "markdown"])
@given(TEXTS)
@example("a\r\n")
def test_strings_in_all_formats_survive_a_round_trip(name, text):
    try:
        fragment = read_fragment(text, name)
    except UwagaError:
        return
    trimmed = BLANK_ENDS.sub("", text)  # as translations of text without a format are
    assert fragment.write(fragment.inlines) == (trimmed if name == "text" else text)


@pytest.mark.parametrize("name", FILE_NAMES)
@given(TEXTS)
def test_arbitrary_document_is_read_or_rejected_with_a_uwaga_error(name, text):
    read = find_format(Path(name)).read
    data = text.encode("utf-8", "surrogatepass")
    try:
        pieces = list(read(DocumentSource(name, data, DocumentOptions(target="pl"))).pieces)
    except UwagaError:
        return
    for piece in pieces:
        assert isinstance(piece, str | Unit)


@given(TEXTS)
def test_splitting_into_placeholders_or_sentences_preserves_the_text(text):
    assert plain_text(resolve_placeholders(True).split(text)) == text
    line = text.replace("\n", " ").replace("\r", " ")
    assert "".join(split_sentences(line, "en")) == line

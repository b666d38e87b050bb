"""Inline content (texts with tags), and word alignments."""

from uwaga.markup import Tag, plain_text
from uwaga.results.translation import WordAlignment


def test_plain_text_of_inline_content_omits_tags() -> None:
    code = Tag("kept", "<code>a &amp; b</code>", "a & b")
    inline = ("Run ", Tag("open", "<b>"), code, Tag("close", "</b>"), Tag("void", "<br/>"), " now")
    assert plain_text(inline) == "Run a & b now"


def test_word_alignment_is_formatted_as_index_pairs_and_json() -> None:
    alignment = WordAlignment(((0, 1), (2, 5)), ((0, 3), (4, 6)), ((0, 1), (1, 0)))
    assert str(alignment) == "0-1 1-0"
    assert (
        alignment.to_json()
        == '{"source": [[0, 1], [2, 5]], "target": [[0, 3], [4, 6]], "links": [[0, 1], [1, 0]]}'
    )

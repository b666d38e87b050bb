"""A text with tags inside."""

from uwaga.markup import Tag, plain_text
from uwaga.results.translation import WordAlignment


def test_the_plain_text_is_what_a_reader_sees() -> None:
    code = Tag("kept", "<code>a &amp; b</code>", "a & b")
    inline = ("Run ", Tag("open", "<b>"), code, Tag("close", "</b>"), Tag("void", "<br/>"), " now")
    assert plain_text(inline) == "Run a & b now"


def test_links_are_written_as_moses_does() -> None:
    made = WordAlignment(((0, 1), (2, 5)), ((0, 3), (4, 6)), ((0, 1), (1, 0)))
    assert str(made) == "0-1 1-0"
    assert (
        made.to_json()
        == '{"source": [[0, 1], [2, 5]], "target": [[0, 3], [4, 6]], "links": [[0, 1], [1, 0]]}'
    )

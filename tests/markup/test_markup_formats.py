"""Strings in markup formats are parsed, and written back unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga.markup import Tag, plain_text
from uwaga.markup.formats import Format, read_fragment, text_format
from uwaga.markup.units import Fragment

HTML = [
    "<p>Hello <b>big</b> &amp; small&nbsp;world &copy;<br>x</p><pre> a  b</pre><!-- c -->",
    "<script>a<b</script>", "<ul><li>One <code>ls &lt;</code><li><i>Two</b></ul>",
    '<img alt="A &quot;dog&quot;" src=x> <span translate="no">Foo <span>x</span></span> bar',
    "<a href='x?a=1&b=2' title='A cat'>y</a>", "", "  ", "<div>", "a <code>unclosed <b>x", "plain > text",
    "<!DOCTYPE html><html><head><title>T</title><style>p{}</style></head><body>x</body></html>",
    "<svg><text>x</text></svg>", "<textarea>leave <b> this</textarea> but <p",
]  # fmt: skip


def marked_texts(fragment: Fragment) -> list[str]:
    return [
        "".join(part if isinstance(part, str) else f"[{part.kind[0]}]" for part in inline)
        for inline in fragment.inlines
    ]


@pytest.mark.parametrize("text", HTML)
def test_html_survives_a_round_trip(text: str) -> None:
    fragment = read_fragment(text, "html")
    assert fragment.write(fragment.inlines).replace("&lt;p", "<p") == text


def test_block_elements_of_html_separate_texts() -> None:
    fragment = read_fragment("<p>One <b>two</b>.</p><div>Three<br>four <code>x</code></div>", "html")
    assert marked_texts(fragment) == ["One [o]two[c].", "Three", "four [k]"]


def test_numbered_elements_are_inline_but_hyphenated_custom_elements_are_not() -> None:
    fragment = read_fragment("<h1>One <b0>two</b0></h1>, three <x-1>four</x-1>", "html")
    assert marked_texts(fragment) == ["One [o]two[c]", ", three", "four"]


def test_untranslatable_html_is_unchanged() -> None:
    text = '<p class="a notranslate">x</p><b translate=no>y</b> z <q>w</q> <kbd>k</kbd><style>s</style>'
    assert marked_texts(read_fragment(text, "html", frozenset(["q"]))) == ["[k] z [k] [k]"]


def test_html_attributes_with_text_are_translated() -> None:
    text = '<img alt="A dog" src="a.png"><input type="submit" value=\'Send it\'><input value="x">'
    fragment = read_fragment(text, "html")
    assert marked_texts(fragment) == ["A dog", "Send it"]
    assert fragment.write([('Ein "Hund"',), ("Schick's",)]) == (
        '<img alt="Ein &quot;Hund&quot;" src="a.png"><input type="submit" value=\'Schick&#39;s\'>'
        '<input value="x">'
    )


def test_entities_are_decoded_and_written_again() -> None:
    fragment = read_fragment("caf&eacute; &#8212; &lt;x&gt;", "html")
    assert fragment.inlines == [("café — <x>",)]
    assert fragment.write([("é — < & >",)]) == "&eacute; &#8212; &lt; &amp; &gt;"


@given(st.text(alphabet="<>/ab&;\"'= !-", max_size=40))
def test_malformed_html_survives_a_round_trip(text: str) -> None:
    fragment = read_fragment(text, "html")
    written = fragment.write(fragment.inlines)
    assert (
        written.replace("&lt;", "<").replace("&amp;", "&").split()
        == text.replace("&lt;", "<").replace("&amp;", "&").split()
    )


def test_message_tags_are_parsed_and_written_back() -> None:
    text = "One <0>two</0>,\n<a1>three</a1>  R&D &lt; 4"
    fragment = read_fragment(text, "message")
    assert marked_texts(fragment) == ["One [o]two[c],\n[o]three[c]  R&D < 4"]
    assert fragment.write(fragment.inlines) == text


@pytest.mark.parametrize(
    "text", ["a <b>", "<br />", "</x>", "<a i=0>", "<0>", '<a href="x" b>', "<x:y z='1'/>"]
)
def test_text_with_tags_is_recognised_as_a_message(text: str) -> None:
    assert text_format(text) == "message"


@pytest.mark.parametrize("text", ["a < b > c", "if (a<b && c>d)", "<", "<>", "R&amp;D", "<a b", "<a <b"])
def test_text_without_tags_is_recognised_as_plain_text(text: str) -> None:
    assert text_format(text) == "text"


XML = 'Press <g id="1">Save</g> &amp; <ph id="2">&lt;br&gt;</ph><x id="3"/> <![CDATA[a<b]]> now<!-- c -->'


def test_xml_is_parsed_and_written_back() -> None:
    fragment = read_fragment(XML, "xml")
    assert marked_texts(fragment) == ["Press [o]Save[c] & [k][v] [k] now"]
    assert fragment.write(fragment.inlines) == XML
    text = "a <q>b</q> <m translate='no'>c</m>"
    assert marked_texts(read_fragment(text, "xml", frozenset(["q"]))) == ["a [k] [k]"]
    assert marked_texts(read_fragment("<?xml-stylesheet href='a'?>b <i>c</i>", "xml")) == ["b [o]c[c]"]


@pytest.mark.parametrize(
    "text",
    [
        "<a>", "a & b", "&unknown;", "<a></b>", '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', "\x00",
    ],
)  # fmt: skip
def test_malformed_xml_and_xml_with_a_doctype_are_rejected(text: str) -> None:
    with pytest.raises(DataError, match="XML"):
        read_fragment(text, "xml")


MARKDOWN = [
    '# Hello *big* **world**\n\nA [link *x*](http://a.b/c(d) "T") and `code` ![img [a]](x.png) <b>y</b>\n',
    "> quoted text\n\n- item _one_\n- two ~~x~~\n\n```\ncode\n```\n\n| a | b |\n|---|---|\n| c *d* | e |\n",
    "hard  \nbreak\\\nhere <http://x.y> \\* a_b_c\n",
    "[a reference][b] and [c][b]\n\n[b]: http://x.y\n",
    "1. x\n",
    "",
]


@pytest.mark.parametrize("text", MARKDOWN)
def test_markdown_survives_a_round_trip(text: str) -> None:
    pytest.importorskip("markdown_it")
    fragment = read_fragment(text, "markdown")
    assert fragment.write(fragment.inlines) == text


def test_markdown_is_parsed_into_tags_and_escaped() -> None:
    pytest.importorskip("markdown_it")
    fragment = read_fragment("Soft\nline *b* `c` [l](u)\n", "markdown")
    assert marked_texts(fragment) == ["Soft line [o]b[c] [k] [o]l[c]"]
    assert fragment.write([("2. *x*", Tag("void", "![a](b)"))]) == "2\\. \\*x\\*![a](b)\n"


@pytest.mark.parametrize("name", ["html", "markdown"])
@given(text=st.text(alphabet="*_[]()`<>\n ab&;#-!\\|~1.", max_size=40))
def test_words_of_arbitrary_markup_are_preserved(name: Format, text: str) -> None:
    if name == "markdown":
        pytest.importorskip("markdown_it")
    fragment = read_fragment(text, name)
    written = fragment.write(fragment.inlines)
    assert [written.count(letter) for letter in "1b"] == [text.count(letter) for letter in "1b"]


def test_xml_ruby_annotations_are_not_translated() -> None:
    text = "The <ruby>driver<rp>(</rp><rt>dry</rt><rp>)</rp></ruby> is here"
    fragment = read_fragment(text, "xml")
    [inline] = fragment.inlines
    assert plain_text(inline) == "The driver is here" and fragment.write([inline]) == text

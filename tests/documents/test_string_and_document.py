"""A string and a document of the same format are divided into the same units."""

from itertools import product
from pathlib import Path

import pytest
from document_laws import identity

import uwaga
from uwaga.markup import plain_text
from uwaga.markup.formats import read_fragment
from uwaga.markup.units import Unit, write_unit
from uwaga_documents import DocumentOptions, DocumentSource, find_format

CONTENTS = [
    "Two words", "One <b>bold</b> word", "<textarea>Leave <b>this</b></textarea> but not this",
    "<xmp>Leave <b>this</b></xmp> but not this",
    '<table summary="A summary"><tr><td abbr="Short">A cell</td></tr></table>',
    "<script>if (a<b) alert('x')</script>After it", "<style>p > a {}</style><title>A title</title>",
    'A <img alt="A picture" src=x> here',
    "<code>ls -l</code> lists <span translate=no>Foo <i>Bar</i></span> files",
    'First line<br>second <a href="x" title="A link">line</a><br/>third',
    "5 &lt; 6 &amp; caf&eacute; &#8212; x", "<pre>a  b</pre><object>inside</object> after",
    "Unclosed <b>bold <i>words</b> here</i>", "a <p class='x and more",
    "<!-- a comment -->Words <![CDATA[data]]> end", "<ul><li>One item<li>Another item</ul>",
    '<input type=submit value="Send it"><input value="no"><input placeholder="Your name">',
    '<meta name="description" content="What it is"><link title="no">',
    "<svg><text>no</text></svg><option label='A label'>An option",
    "<listing>no</listing><noembed>no</noembed><template>no</template>yes", "", " 42 ",
    "<plaintext>Leave <b>this</b> to the end", "<div class=notranslate>No <b>word</b></div> a word",
    "Ends <b",
]  # fmt: skip
WRAPPERS = [
    "{}", "<p>{}</p>", "<html><body>\n{}\n</body></html>", "<div>{}<p>Another paragraph</p></div>",
    "<b>{}</b>", "Before {} after", "<td>\n  {}<br>x</td>", "{0}<p>{0}",
]  # fmt: skip
HTML = [wrapper.format(content) for wrapper, content in product(WRAPPERS, CONTENTS)]
MARKDOWN = [
    "# A heading\n\nSome *words* and `code`,\nin two lines.\n\n- An item\n- Another\n",
    "| a | b |\n|---|---|\n| one | two \\| three |\n",
    "<div>\n<p>Some <b>html</b></p>\n</div>\n\n> A quote\r\n> goes on\r\n",
    "Line one  \nline two[^1] costs $x_1 * y_2$ :smile:\n\n[^1]: The footnote's text here\n",
    "Term\n: Its definition\n: Another one\n",
    "old\rlines\rend\n\n# x\ry",
]


def read_pieces(name: str, text: str) -> list[str | Unit]:
    source = DocumentSource(name, text.encode(), DocumentOptions())
    return list(find_format(Path(name)).read(source).pieces)


@pytest.mark.parametrize(
    ("name", "format", "texts"), [("a.html", "html", HTML), ("a.md", "markdown", MARKDOWN)]
)
def test_string_is_segmented_like_a_document_with_the_same_text(name, format, texts):
    assert name != "a.html" or len(set(texts)) >= 190
    for text in texts:
        fragment = read_fragment(text, format)
        pieces = read_pieces(name, text)
        inlines = [inline for piece in pieces if isinstance(piece, Unit) for inline in piece.inlines]
        assert fragment.inlines == inlines, text
        assert fragment.write(fragment.inlines) == text
        assert (
            "".join(
                piece if isinstance(piece, str) else write_unit(piece, identity(piece.inlines))
                for piece in pieces
            )
            == text
        )


def plain_texts(text: str, format: str) -> list[str]:
    return [plain_text(inline) for inline in read_fragment(text, format).inlines]


def test_raw_text_elements_of_html_are_not_translated():
    for name in ("textarea", "xmp", "script", "style", "noembed", "noframes"):
        assert plain_texts(f"a word <{name}>x <b>y</{name}> z", "html") == ["a word", "z"]
        assert plain_texts(f"a word <{name}>x <b>y", "html") == ["a word"]


def test_html_line_break_ends_a_segment():
    text = "My <b>address:<br>Second</b> line"
    assert plain_texts(text, "html") == ["My address:", "Second line"]
    fragment = read_fragment(text, "html")
    written = fragment.write(
        [
            (*inline[:-1], inline[-1].upper()) if isinstance(inline[-1], str) else inline
            for inline in fragment.inlines
        ]
    )
    assert written.count("<b>") == written.count("</b>") == written.count("<br>") == 1
    assert written.index("<b>") < written.index("<br>") < written.index("</b>")


def test_adjacent_links_are_separate_segments():
    text = 'x <a href="1">y</a> <a href="2">z</a>'
    assert plain_texts(text, "html") == ["x y z"]
    assert plain_texts(text.removeprefix("x "), "html") == ["y", "z"]
    assert plain_texts("[one](a) | [two *words*](b)\n", "markdown") == ["one", "two words"]
    translation = uwaga.Translator.load().translate(
        '<a href="1">Home</a> <a href="2">Contact</a>', format="html"
    )
    assert "></a>" not in translation.text


def test_markdown_extensions_are_recognised_in_strings():
    text = (
        "Line[^1] costs $x_1 * y_2$ :smile: or $5 and $10.\n\n[^1]: The text here\n\nTerm\n: Its definition\n"
    )
    fragment = read_fragment(text, "markdown")
    assert plain_texts(text, "markdown") == [
        "Line[^1] costs $x_1 * y_2$ :smile: or $5 and $10.", "The text here", "Term", "Its definition",
    ]  # fmt: skip
    written = fragment.write(
        [
            tuple(part.upper() if isinstance(part, str) else part for part in inline)
            for inline in fragment.inlines
        ]
    )
    assert written == (
        "LINE[^1] COSTS $x_1 * y_2$ :smile: OR $5 AND $10.\n\n[^1]: THE TEXT HERE\n\nTERM\n: ITS DEFINITION\n"
    )


def test_translator_keeps_line_breaks_and_raw_text_elements():
    translated = (
        uwaga.Translator.load()
        .translate("<p>Good morning!<br>The house is old.</p><textarea>The house</textarea>", format="html")
        .text
    )
    assert translated.count("<br>") == 1
    assert translated.endswith("</p><textarea>The house</textarea>")

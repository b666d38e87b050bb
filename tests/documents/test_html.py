import re
from html.parser import HTMLParser

import pytest
from document_laws import check_laws, render, swap_case, texts
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga.markup import plain_text
from uwaga_documents import DocumentOptions

WORDS = st.text("abcXYZ äß&;é", min_size=1, max_size=12).map(
    lambda text: text.replace("&", "&amp;").replace("é", "&eacute;")
)
INLINE = st.deferred(
    lambda: st.one_of(
        WORDS,
        st.tuples(st.sampled_from(["b", "i", "a", "span"]), st.lists(INLINE, max_size=3)).map(
            lambda element: f"<{element[0]}>{''.join(element[1])}</{element[0]}>"
        ),
        st.sampled_from(
            [
                "<br>", "<img src='a.png' alt='a picture'>", "<code>ls -l</code>",
                '<a href="x?a=1&amp;b=2" title="Read &quot;me&quot;">link</a>',
                "<span translate=no>Keep me</span>", "<!-- a comment -->",
            ]
        ),
    )
)  # fmt: skip
MALFORMED_MARKUP = st.sampled_from(
    ["<", "&", "</p>", "<p>", "<b>", "</i>", "<p class='x", "<!--", "<code>", "\0x", "<td", "]]>"]
)
BLOCK = st.one_of(
    st.tuples(st.sampled_from(["p", "h1", "li", "td", "div"]), st.lists(INLINE, max_size=4)).map(
        lambda element: f"<{element[0]}>{''.join(element[1])}</{element[0]}>\n"
    ),
    st.sampled_from(
        ["<script>if (a<b) alert('x')</script>", "<style>p > a { color: red }</style>", "<pre>a  b</pre>"]
    ),
)


@given(st.lists(BLOCK, max_size=6))
def test_html_page_survives_a_round_trip(blocks):
    check_laws("a.html", "<!DOCTYPE html>\n<html><body>{}</body></html>".format("".join(blocks)).encode())


@given(st.lists(st.one_of(BLOCK, MALFORMED_MARKUP, INLINE), max_size=8))
def test_malformed_html_survives_a_round_trip(blocks):
    page = "".join(blocks).replace("\0", "").encode()
    assert render("a.html", page, list) == page
    changed = render("a.html", page, swap_case)
    assert re.findall(rb"</?[a-z]+[ >]", changed) == re.findall(rb"</?[a-z]+[ >]", page)


PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>The title</title>
<meta name="description" content="What it is"><meta name="viewport" content="width=device-width">
<script>var a = "text";</script></head>
<body class="x"><p>One <b>bold</b> word,
over two lines.<p>Another <img alt="A cat" src=c.png> here
<div class="notranslate">Left <b>alone</b></div><input type=submit value="Send"><input value="no">
<a title='it&#39;s'>Link</a></body></html>"""


def test_html_titles_texts_and_attributes_are_translated():
    page_texts = [
        "".join(part if isinstance(part, str) else "*" for part in text) for text in texts("a.html", PAGE)
    ]
    assert page_texts == [
        "The title", "What it is", "One *bold* word, over two lines.", "Another * here", "A cat", "Send",
        "Link", "it's",
    ]  # fmt: skip
    changed = check_laws("a.html", PAGE).decode()
    assert 'content="wHAT IT IS"' in changed and "width=device-width" in changed
    assert 'alt="a CAT" src=c.png' in changed and "title='IT&#39;S'" in changed
    assert '<div class="notranslate">Left <b>alone</b></div>' in changed and 'var a = "text"' in changed


def test_translations_are_escaped_in_html():
    page = render(
        "a.html", b"<p title='a'>one</p>", lambda inlines: [("<b> & 'x'",) for _ in inlines]
    ).decode()
    assert page == "<p title='&lt;b&gt; &amp; &#39;x&#39;'>&lt;b&gt; &amp; 'x'</p>"
    data = []
    parser = HTMLParser()
    parser.handle_data = data.append
    parser.feed(page)
    parser.close()
    assert "".join(data) == "<b> & 'x'"


def test_unencodable_character_is_written_as_a_character_reference():
    page = '<meta charset="iso-8859-1"><p>caf\xe9</p>'.encode("latin-1")
    rendered = render("a.html", page, lambda inlines: [("Łódź é",) for _ in inlines])
    assert rendered == '<meta charset="iso-8859-1"><p>&#321;ód&#378; \xe9</p>'.encode("latin-1")


def test_invalid_byte_is_reported():
    with pytest.raises(DataError, match=r"line 2, byte 9 of the file is not valid utf-8"):
        texts("a.html", b"<p>a\n</p\xff>")
    assert texts("a.html", "<p>čau</p>".encode("cp1250"), DocumentOptions(encoding="cp1250")) == [("čau",)]


def test_ruby_annotations_are_copied():
    page = (
        b"<p>The <ruby><rb>driver</rb><rp>(</rp><rt>dry-ver</rt><rp>)</rp></ruby> is happy.</p>"
        b"<p><ruby>a<rt>x</rt>b<rt>y</rt></ruby> and <ruby>c<rp>(<rt>z<rp>)</ruby> end</p>"
    )
    assert [plain_text(text) for text in texts("a.html", page)] == ["The driver is happy.", "ab and c end"]
    rendered = render("a.html", page, swap_case)
    assert b"<rb>DRIVER</rb><rp>(</rp><rt>dry-ver</rt><rp>)</rp></ruby> IS" in rendered
    assert b"<ruby>A<rt>x</rt>B<rt>y</rt></ruby> AND <ruby>C<rp>(<rt>z<rp>)</ruby>" in rendered


def test_white_space_between_block_elements_is_kept():
    page = b'<p>\n\tOne\n\ttwo.\n</p>\n<!-- c -->\n\n<img alt="A"/>\n <form>\n  x<br>\n  y\n</form>\n'
    expected = b'<p>\n\toNE TWO.\n</p>\n<!-- c -->\n\n<img alt="a"/>\n <form>\n  X<br>\n  Y\n</form>\n'
    assert render("a.html", page, swap_case) == expected

from document_laws import identity, render, swap_case, texts, with_tag_kinds
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

WORD = st.text("abcdXYZé*_`<[]&!1.-#~|\\(漢", min_size=1, max_size=7)
INLINE = st.one_of(
    WORD,
    st.sampled_from(
        [
            "*emphasis here*",
            "**strong**",
            "_under_",
            "`code *x*`",
            '[a link](http://x.org/a_b "title")',
            "[ref]",
            "[a ref][ref]",
            "![alt](x.png)",
            "<http://auto.link>",
            "<b>html</b>",
            "~~gone~~",
            "end  \nhard",
            "back\\\nslash",
            "\\*escaped\\*",
            "&amp; &copy;",
            "soft\nbreak",
        ]
    ),
)
PARAGRAPH = st.lists(INLINE, min_size=1, max_size=6).map(" ".join)
BLOCK = st.one_of(
    PARAGRAPH,
    PARAGRAPH.map(lambda text: "# " + text.replace("\n", " ")),
    PARAGRAPH.map(lambda text: "> " + text.replace("\n", "\n> ")),
    PARAGRAPH.map(lambda text: "- " + text.replace("\n", "\n  ")),
    st.just("| a head | b |\n|---|:-:|\n| one \\| two | `code` |\n| x | **y** |"),
    st.just("```python\nprint('left alone')\n```"),
    st.just("    indented code"),
    st.just("A heading\nin two lines\n==="),
    st.just("<div class='x'>\n<p>Some html</p>\n</div>"),
    st.just("***"),
)
DOCUMENT = st.lists(BLOCK, max_size=6).map(
    lambda blocks: "\n\n".join([*blocks, "[ref]: http://ref.org 'Title'\n"])
)


@given(DOCUMENT)
def test_round_trip(text):
    assert render("a.md", text.encode(), identity) == text.encode()


def normalised_words(inlines):
    """Return the words of texts, with the kinds of their tags."""
    return [
        "".join(part if isinstance(part, str) else f"<{part.kind}>" for part in inline).split()
        for inline in inlines
    ]


@given(DOCUMENT)
def test_written_text_is_parsed_again(text):
    changed = render("a.md", text.encode(), swap_case)
    assert normalised_words(texts("a.md", changed)) == normalised_words(
        swap_case(texts("a.md", text.encode()))
    )


def test_structure_and_layout():
    text = (
        "---\ntitle: The title # a comment\nlayout: page\n---\n\nSome *words* in a paragraph that is long\n"
        "enough for two lines.\n\n1. An item\n   going on\n2. Another\n\n> Quoted text\n> in two lines\n"
    )
    changed = render("a.md", text.encode(), swap_case).decode()
    assert changed == (
        "---\ntitle: tHE TITLE # a comment\nlayout: page\n---\n\nsOME *WORDS* IN A PARAGRAPH THAT IS LONG\n"
        "ENOUGH FOR TWO LINES.\n\n1. aN ITEM GOING ON\n2. aNOTHER\n\n> qUOTED TEXT IN TWO\n> LINES\n"
    )


def test_escaping():
    for markup in (
        "# no heading",
        "1. no item",
        "- no item",
        "a *b* c",
        "`x`",
        "<b>",
        "[ref]",
        "&copy;",
        "> x",
        "===",
    ):
        rendered = render("a.md", b"some words\n\n[ref]: /x\n", lambda _, text=markup: [(text,)]).decode()
        tokens = MarkdownIt("commonmark").parse(rendered)
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], rendered
        assert "".join(token.content for token in tokens[1].children) == markup
        assert all(token.type in ("text", "text_special") for token in tokens[1].children)


def test_escaped_bars_in_tables():
    text = "| a \\| b | `c \\| d` |\n|---|---|\n| one \\| two | three |\n"
    assert render("a.md", text.encode(), identity).decode() == text
    assert texts("a.md", text.encode())[0] == ("a | b",)
    rendered = render(
        "a.md", text.encode(), lambda inlines: [("x | y", *inline[1:]) for inline in inlines]
    ).decode()
    rows = [line for line in rendered.splitlines() if "---" not in line]
    tokens = MarkdownIt("commonmark").enable("table").parse(rendered)
    cells = [token.content for i, token in enumerate(tokens) if tokens[i - 1].type in ("th_open", "td_open")]
    assert len(rows) == 2 and len(cells) == 4
    assert cells[0].replace("\\|", "|") == "x | y"


def test_heading_ending_in_number_sign():
    assert render("a.md", b"# X \\#\n", swap_case) == b"# x \\#\n"


def test_invalid_emphasis_becomes_html():
    def move_tags(inlines):
        return [("a", inline[1], "b.", inline[3], "c") if len(inline) > 3 else inline for inline in inlines]

    rendered = render("a.md", b"some _words b._ and more\n", move_tags).decode()
    assert rendered == "a<em>b.</em>c\n"


def test_shortcut_reference_link_gets_label():
    rendered = render("a.md", b"See [the docs] now.\n\n[the docs]: /x\n", swap_case)
    assert rendered == b"sEE [THE DOCS][the docs] NOW.\n\n[the docs]: /x\n"
    assert with_tag_kinds(texts("a.md", rendered))[0] == ("sEE ", ("open",), "THE DOCS", ("close",), " NOW.")

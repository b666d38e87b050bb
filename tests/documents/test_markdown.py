from document_laws import bare, render, swapped, texts, unchanged
from hypothesis import given, settings
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


@settings(deadline=None, max_examples=50)
@given(DOCUMENT)
def test_documents_come_back(text):
    assert render("a.md", text.encode(), unchanged) == text.encode()


def spread(inlines):
    """Texts with one space for every run of them, and without what says where links lead."""
    return [
        "".join(part if isinstance(part, str) else f"<{part.kind}>" for part in one).split()
        for one in inlines
    ]


@settings(deadline=None, max_examples=50)
@given(DOCUMENT)
def test_what_is_written_is_read_again(text):
    changed = render("a.md", text.encode(), swapped)
    assert spread(texts("a.md", changed)) == spread(swapped(texts("a.md", text.encode())))


def test_structure_and_layout_stay():
    text = (
        "---\ntitle: The title # a comment\nlayout: page\n---\n\nSome *words* in a paragraph that is long\n"
        "enough for two lines.\n\n1. An item\n   going on\n2. Another\n\n> Quoted text\n> in two lines\n"
    )
    changed = render("a.md", text.encode(), swapped).decode()
    assert changed == (
        "---\ntitle: tHE TITLE # a comment\nlayout: page\n---\n\nsOME *WORDS* IN A PARAGRAPH THAT IS LONG\n"
        "ENOUGH FOR TWO LINES.\n\n1. aN ITEM GOING ON\n2. aNOTHER\n\n> qUOTED TEXT IN TWO\n> LINES\n"
    )


def test_text_that_would_be_markup_is_escaped():
    for evil in (
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
        made = render("a.md", b"some words\n\n[ref]: /x\n", lambda _, to=evil: [(to,)]).decode()
        tokens = MarkdownIt("commonmark").parse(made)
        assert [one.type for one in tokens] == ["paragraph_open", "inline", "paragraph_close"], made
        assert "".join(one.content for one in tokens[1].children) == evil
        assert all(one.type in ("text", "text_special") for one in tokens[1].children)


def test_escaped_bars_in_tables_stay_in_their_cells():
    text = "| a \\| b | `c \\| d` |\n|---|---|\n| one \\| two | three |\n"
    assert render("a.md", text.encode(), unchanged).decode() == text
    assert texts("a.md", text.encode())[0] == ("a | b",)
    made = render("a.md", text.encode(), lambda inlines: [("x | y", *one[1:]) for one in inlines]).decode()
    rows = [line for line in made.splitlines() if "---" not in line]
    tables = MarkdownIt("commonmark").enable("table").parse(made)
    cells = [one.content for at, one in enumerate(tables) if tables[at - 1].type in ("th_open", "td_open")]
    assert len(rows) == 2 and len(cells) == 4
    assert cells[0].replace("\\|", "|") == "x | y"


def test_a_heading_may_end_in_a_number_sign():
    assert render("a.md", b"# X \\#\n", swapped) == b"# x \\#\n"


def test_emphasis_that_could_not_open_there_is_written_as_html():
    def moved(inlines):
        return [("a", one[1], "b.", one[3], "c") if len(one) > 3 else one for one in inlines]

    made = render("a.md", b"some _words b._ and more\n", moved).decode()
    assert made == "a<em>b.</em>c\n"


def test_a_link_by_its_own_text_names_its_definition():
    made = render("a.md", b"See [the docs] now.\n\n[the docs]: /x\n", swapped)
    assert made == b"sEE [THE DOCS][the docs] NOW.\n\n[the docs]: /x\n"
    assert bare(texts("a.md", made))[0] == ("sEE ", ("open",), "THE DOCS", ("close",), " NOW.")

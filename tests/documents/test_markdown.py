import pytest
from document_laws import identity, reasons, render, swap_case, texts, with_tag_kinds
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from uwaga.markup import plain_text

WORD = st.text("abcdXYZé*_`<[]&!1.-#~|\\(漢", min_size=1, max_size=7)
INLINE = st.one_of(
    WORD,
    st.sampled_from(
        [
            "*emphasis here*", "**strong**", "_under_", "`code *x*`", '[a link](http://x.org/a_b "title")',
            "[ref]", "[a ref][ref]", "![alt](x.png)", "<http://auto.link>", "<b>html</b>", "~~gone~~",
            "end  \nhard", "back\\\nslash", "\\*escaped\\*", "&amp; &copy;", "soft\nbreak",
        ]
    ),
)  # fmt: skip
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
def test_markdown_document_survives_a_round_trip(text):
    assert render("a.md", text.encode(), identity) == text.encode()


def normalised_words(inlines):
    """Return the words of texts, with each tag replaced by its kind."""
    return [
        "".join(part if isinstance(part, str) else f"<{part.kind}>" for part in inline).split()
        for inline in inlines
    ]


@given(DOCUMENT)
def test_translated_markdown_document_is_parsed_into_the_same_texts(text):
    changed = render("a.md", text.encode(), swap_case)
    assert normalised_words(texts("a.md", changed)) == normalised_words(
        swap_case(texts("a.md", text.encode()))
    )


def test_markdown_structure_and_layout_are_preserved():
    text = (
        "---\ntitle: The title # a comment\nlayout: page\n---\n\nSome *words* in a paragraph that is long\n"
        "enough for two lines.\n\n1. An item\n   going on\n2. Another\n\n> Quoted text\n> in two lines\n"
    )
    changed = render("a.md", text.encode(), swap_case).decode()
    assert changed == (
        "---\ntitle: tHE TITLE # a comment\nlayout: page\n---\n\nsOME *WORDS* IN A PARAGRAPH THAT IS LONG\n"
        "ENOUGH FOR TWO LINES.\n\n1. aN ITEM GOING ON\n2. aNOTHER\n\n> qUOTED TEXT IN TWO\n> LINES\n"
    )


def test_translations_are_escaped_in_markdown():
    for markup in (
        "# no heading", "1. no item", "- no item", "a *b* c", "`x`", "<b>", "[ref]", "&copy;", "> x", "===",
    ):  # fmt: skip
        rendered = render("a.md", b"some words\n\n[ref]: /x\n", lambda _, text=markup: [(text,)]).decode()
        tokens = MarkdownIt("commonmark").parse(rendered)
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], rendered
        assert "".join(token.content for token in tokens[1].children) == markup
        assert all(token.type in ("text", "text_special") for token in tokens[1].children)


def test_vertical_bars_in_table_cells_are_escaped():
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


def test_number_sign_that_ends_a_heading_stays_escaped():
    assert render("a.md", b"# X \\#\n", swap_case) == b"# x \\#\n"


def test_emphasis_that_markdown_cannot_express_is_written_as_html():
    def move_tags(inlines):
        return [("a", inline[1], "b.", inline[3], "c") if len(inline) > 3 else inline for inline in inlines]

    rendered = render("a.md", b"some _words b._ and more\n", move_tags).decode()
    assert rendered == "a<em>b.</em>c\n"


def test_translated_shortcut_reference_link_gets_a_label():
    rendered = render("a.md", b"See [the docs] now.\n\n[the docs]: /x\n", swap_case)
    assert rendered == b"sEE [THE DOCS][the docs] NOW.\n\n[the docs]: /x\n"
    assert with_tag_kinds(texts("a.md", rendered))[0] == ("sEE ", ("open",), "THE DOCS", ("close",), " NOW.")


def model_texts(document):
    return [plain_text(text) for text in texts("a.md", document.encode())]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("> [!NOTE]\n> The car.\n", "> [!NOTE]\n> tHE CAR.\n"),
        ("> [!tip]- A title\n> Body here.\n", "> [!tip]- a TITLE\n> bODY HERE.\n"),
        ("## A step {#a-step .wide}\n", "## a STEP {#a-step .wide}\n"),
        ("Some text\n{: .note }\nmore\n", "sOME TEXT\n{: .note }\nMORE\n"),
        ("{{% tip %}}\nNice day.\n{{% /tip %}}\n", "{{% tip %}}\nnICE DAY.\n{{% /tip %}}\n"),
        ("Text {% if x %}or{% endif %} so {{< i >}}.\n", "tEXT {% if x %}OR{% endif %} SO {{< i >}}.\n"),
        ('[Link]({{< ref "a b.md" >}}) text\n', '[lINK]({{< ref "a b.md" >}}) TEXT\n'),
        (":::tip Good idea\nA woman.\n:::\n", ":::tip gOOD IDEA\na WOMAN.\n:::\n"),
        (":::note[Label]{#x}\nIn.\n:::\n", ":::note[lABEL]{#x}\niN.\n:::\n"),
        ('::: tip "Quoted"\nIn.\n:::\n', '::: tip "qUOTED"\niN.\n:::\n'),
        ("::: {.callout-note}\nIn.\n:::\n", "::: {.callout-note}\niN.\n:::\n"),
        ('!!! note "A hint"\n    Two dogs.\n', '!!! note "a HINT"\n    tWO DOGS.\n'),
        ("!!! note\n\n    - one\n    - two\n\nEnd\n", "!!! note\n\n    - ONE\n    - TWO\n\neND\n"),
        ("??? note\n    ??? tip\n        Deep.\n", "??? note\n    ??? tip\n        dEEP.\n"),
        ('- a\n\n    === "Tab"\n        In.\n\n    b\n', '- A\n\n    === "tAB"\n        iN.\n\n    B\n'),
        ("!!! a\n    ```\n    code\n    ```\n    Text\n", "!!! a\n    ```\n    code\n    ```\n    tEXT\n"),
        ("/// note | Title\nIn.\n///\n", "/// note | tITLE\niN.\n///\n"),
        ("import A from '@a/b';\nimport 'c'\n\nText\n", "import A from '@a/b';\nimport 'c'\n\ntEXT\n"),
        ("export const a = {\n  b: 1\n}\n\nText\n", "export const a = {\n  b: 1\n}\n\ntEXT\n"),
        ("```\n!!! note\n:::tip A\n{% x %}\n```\n", "```\n!!! note\n:::tip A\n{% x %}\n```\n"),
        ("Before\n\n    !!! note \"A\"\n\nAfter\n", "bEFORE\n\n    !!! note \"A\"\n\naFTER\n"),
        ("[^1]: One\n[^a]: Two words\n\n    More here.\n", "[^1]: oNE\n[^a]: tWO WORDS\n\n    mORE HERE.\n"),
        ('![An image](a.png "A title")\n', '![aN IMAGE](a.png "a TITLE")\n'),
        ("See ![alt] and [b](c 'A t').\n\n[alt]: x\n", "sEE ![ALT][alt] AND [B](c 'a T').\n\n[alt]: x\n"),
        ('Text <img alt="Alt" src="a"> end\n', 'tEXT <img alt="aLT" src="a"> END\n'),
        ('[a]\n\n[a]: http://b.c "Title"\n', '[A][a]\n\n[a]: http://b.c "tITLE"\n'),
    ],
)  # fmt: skip
def test_markdown_dialect_syntax_is_preserved(document, expected):
    assert render("a.md", document.encode(), swap_case).decode() == expected
    assert render("a.md", document.encode(), identity) == document.encode()


def test_markdown_dialect_syntax_is_not_sent_to_the_model():
    assert model_texts("> [!NOTE]\n> The car.\n\n# Step {#id}\n\n!!! note\n    - one\n") == [
        "The car.",
        "Step",
        "one",
    ]


def test_translated_titles_and_labels_stay_inside_their_delimiters():
    document = b'![a](b "c")\n\n!!! note "d"\n\n:::tip[e]\n:::\n'
    rendered = render("a.md", document, lambda inlines: [('"x" [y]',) for _ in inlines]).decode()
    assert rendered.startswith('!["x" \\[y\\]](b "&quot;x&quot; [y]")')
    assert '!!! note "&#34;x&#34; ' in rendered and rendered.splitlines()[4].count("]") == 1


def test_untranslated_blocks_are_counted_by_reason():
    document = '```\ncode\n```\n\n{{< figure title="A man sleeps" >}}\n\n> <div>words</div>\n\n`ls -l`\n'
    assert reasons("a.md", document.encode()) == {
        "code and forms": 1,
        "in the tags of a template": 1,
        "not found in the lines of the document": 1,
        "only code and other untranslated words": 1,
    }

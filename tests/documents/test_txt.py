from document_laws import SWAPPED, render, run, swapped, texts, unchanged
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.documents import DocumentOptions

WORD = st.text("abcdefgXYZäßж漢'", min_size=1, max_size=9)
LINE = st.one_of(
    st.lists(WORD, min_size=1, max_size=14).map(" ".join),
    st.sampled_from(["", "  ", "\t", "- item one", "1) first", "   indented words here", "12 345", "***"]),
)
TEXT = st.tuples(st.lists(LINE, max_size=12), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans()).map(
    lambda drawn: drawn[1].join(drawn[0]) + drawn[1] * drawn[2]
)


@settings(deadline=None, max_examples=40)
@given(TEXT)
def test_text_around_words_stays(text):
    assert render("a.txt", text.encode(), unchanged) == text.encode()
    # Lines may be laid anew, so the words are compared, not the lines.
    assert render("a.txt", text.encode(), swapped).decode().split() == text.translate(SWAPPED).split()


@settings(deadline=None, max_examples=40)
@given(TEXT, st.sampled_from(["utf-8-sig", "utf-16", "utf-32", "cp1252"]))
def test_every_encoding_comes_back(text, encoding):
    text = "a" + text.replace("漢", "x").replace("ж", "y")
    content, options = text.encode(encoding), DocumentOptions(encoding="cp1252")
    assert render("a.txt", content, unchanged, options) == content
    changed = render("a.txt", content, swapped, options)
    assert changed.decode(encoding).split() == text.translate(SWAPPED).split()
    assert changed[:2] == content[:2] or encoding == "cp1252"


def test_paragraph_is_one_text_over_soft_breaks(tmp_path):
    text = (
        "The first paragraph of this text goes on in a second line\n"
        "and is translated as one text, of course.\n\n"
        "* An item of a list which is so long that it goes on in\n  the next line.\n* Another.\n"
    )
    assert texts("a.txt", text.encode()) == [
        (
            "The first paragraph of this text goes on in a second line and is translated as one text, of "
            "course.",
        ),
        ("An item of a list which is so long that it goes on in the next line.",),
        ("Another.",),
    ]
    longer = run(
        tmp_path, "a.txt", text.encode(), lambda all_: [(one[0] + " And a little more.",) for one in all_]
    )
    lines = longer.decode().split("\n")
    assert max(map(len, lines)) <= 58
    assert lines[3] == "" and lines[4].startswith("* An item") and lines[5].startswith("  ")


def test_a_text_that_grows_is_wrapped_with_its_own_line_ends(tmp_path):
    text = b"One line that is long enough to be soft at its end,\r\nand another.\r\n"
    made = run(tmp_path, "a.txt", text, swapped)
    assert made == b"oNE LINE THAT IS LONG ENOUGH TO BE SOFT AT ITS END,\r\nAND ANOTHER.\r\n"

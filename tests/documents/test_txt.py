from document_laws import SWAP_CASE, identity, render, run, swap_case, texts
from hypothesis import given
from hypothesis import strategies as st

from uwaga_documents import DocumentOptions

WORD = st.text("abcdefgXYZäßж漢'", min_size=1, max_size=9)
LINE = st.one_of(
    st.lists(WORD, min_size=1, max_size=14).map(" ".join),
    st.sampled_from(["", "  ", "\t", "- item one", "1) first", "   indented words here", "12 345", "***"]),
)
TEXT = st.tuples(st.lists(LINE, max_size=12), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans()).map(
    lambda parts: parts[1].join(parts[0]) + parts[1] * parts[2]
)


@given(TEXT)
def test_text_file_survives_a_round_trip(text):
    assert render("a.txt", text.encode(), identity) == text.encode()
    # Lines may be laid anew, so the words are compared, not the lines.
    assert render("a.txt", text.encode(), swap_case).decode().split() == text.translate(SWAP_CASE).split()


@given(TEXT, st.sampled_from(["utf-8-sig", "utf-16", "utf-32", "cp1252"]))
def test_encoding_of_a_text_file_survives_a_round_trip(text, encoding):
    text = "a" + text.replace("漢", "x").replace("ж", "y")
    content, options = text.encode(encoding), DocumentOptions(encoding="cp1252")
    assert render("a.txt", content, identity, options) == content
    changed = render("a.txt", content, swap_case, options)
    assert changed.decode(encoding).split() == text.translate(SWAP_CASE).split()
    assert changed[:2] == content[:2] or encoding == "cp1252"


def test_soft_wrapped_lines_are_joined(tmp_path):
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
        tmp_path,
        "a.txt",
        text.encode(),
        lambda inlines: [(inline[0] + " And a little more.",) for inline in inlines],
    )
    lines = longer.decode().split("\n")
    assert max(map(len, lines)) <= 58
    assert lines[3] == "" and lines[4].startswith("* An item") and lines[5].startswith("  ")


def test_wrapping_translated_lines_preserves_line_endings(tmp_path):
    text = b"One line that is long enough to be soft at its end,\r\nand another.\r\n"
    translated = run(tmp_path, "a.txt", text, swap_case)
    assert translated == b"oNE LINE THAT IS LONG ENOUGH TO BE SOFT AT ITS END,\r\nAND ANOTHER.\r\n"

# ruff: noqa: E501 (documents are shown as they are)
import re

import pytest
from document_laws import SWAP_CASE, identity, render, swap_case, texts
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga.markup import plain_text

TIME = re.compile(r"[\d:.,]+ --> [^\n]*")
TAG = re.compile(r"</?i>|<v [^>]*>|\{\\an8\}")
LINE = st.lists(st.text("abcXYZ'é漢", min_size=1, max_size=8), min_size=1, max_size=6).map(" ".join)
CUE = st.tuples(
    st.lists(LINE, min_size=1, max_size=2), st.sampled_from(["", ".", "?", ","]), st.booleans(), st.booleans()
)


def write_cues(cues, mark, head=""):
    rows = []
    for number, (lines, end, italic, far) in enumerate(cues):
        text = "\n".join(lines) + end
        text = f"<i>{text}</i>" if italic else text
        start = number * 4 + (3 * number if far else 0)
        rows.append(
            f"{number + 1}\n00:{start // 60:02}:{start % 60:02}{mark}000 --> 00:{start // 60:02}:{start % 60:02}{mark}900\n{text}\n"
        )
    return head + "\n".join(rows)


def text_without_markup(text):
    text = text.removeprefix("WEBVTT")
    body = re.sub(r"^\d+$", "", TIME.sub("", text), flags=re.MULTILINE).replace("…", "")
    return "".join(TAG.sub("", body).split())


@given(st.lists(CUE, max_size=7), st.booleans())
def test_subtitle_times_and_words_are_preserved(cues, vtt):
    text = write_cues(cues, "." if vtt else ",", "WEBVTT\n\n" if vtt else "")
    name = "a.vtt" if vtt else "a.srt"
    assert render(name, text.encode(), identity).decode() == text
    changed = render(name, text.encode(), swap_case).decode()
    assert TIME.findall(changed) == TIME.findall(text)
    assert text_without_markup(changed) == text_without_markup(text).translate(SWAP_CASE)
    assert changed.count("<i>") == changed.count("</i>")
    assert len(re.findall(r"\n\n", changed)) == len(re.findall(r"\n\n", text))


@given(st.lists(CUE, min_size=1, max_size=5), st.booleans(), st.sampled_from(["\r\n", "\r"]))
def test_subtitle_line_endings_are_preserved(cues, vtt, end):
    text = write_cues(cues, "." if vtt else ",", "WEBVTT\n\n" if vtt else "")
    name = "a.vtt" if vtt else "a.srt"
    converted = text.replace("\n", end).encode()
    assert render(name, converted, identity) == converted
    assert render(name, converted, swap_case) == render(name, text.encode(), swap_case).replace(
        b"\n", end.encode()
    )


SUBTITLE_FILE = """1
00:00:01,000 --> 00:00:03,000
<i>It was the best of times,</i>

2
00:00:03,100 --> 00:00:06,000
<i>it was the worst
of times.</i>

3
00:00:07,000 --> 00:00:09,000
- Who said that?
- Nobody.
"""


def test_sentence_that_spans_cues_is_translated_as_a_single_text():
    cue_texts = [
        "".join(part if isinstance(part, str) else "|" for part in inline)
        for inline in texts("a.srt", SUBTITLE_FILE.encode())
    ]
    assert cue_texts == [
        "|It was the best of times, it was the worst of times.|",
        "Who said that?",
        "Nobody.",
    ]
    rendered = render("a.srt", SUBTITLE_FILE.encode(), swap_case).decode()
    assert "<i>iT WAS THE BEST OF TIMES,</i>\n\n2" in rendered
    assert "<i>IT WAS THE\nWORST OF TIMES.</i>" in rendered and "- wHO SAID THAT?\n- nOBODY.\n" in rendered


def test_long_translations_are_divided_evenly_between_subtitle_lines():
    def lengthen(inlines):
        return [("word " * 16 + "end.",) for _ in inlines]

    rendered = render("a.srt", b"1\n00:00:01,000 --> 00:00:03,000\nOne line.\n", lengthen).decode()
    lines = rendered.split("\n")[2:4]
    assert abs(len(lines[0]) - len(lines[1])) < 6


def test_vtt_header_style_and_notes_are_unchanged():
    text = (
        "WEBVTT - A title\n\nSTYLE\n::cue { color: red }\n\nNOTE a remark\n\nid-1\n"
        "00:01.000 --> 00:02.000 align:start\n<v Roger>Salt &amp; <00:01.500>pepper\n\n"
    )
    rendered = render("a.vtt", text.encode(), swap_case).decode()
    assert rendered == text.replace("Salt &amp; <00:01.500>pepper", "sALT &amp; <00:01.500>PEPPER")


def test_subtitle_files_without_cues_or_header_are_rejected():
    with pytest.raises(DataError, match="contains no time"):
        texts("a.srt", b"just text")
    with pytest.raises(DataError, match="begin with WEBVTT"):
        texts("a.vtt", b"just text")


def test_blank_lines_inside_cues_are_kept():
    document = (
        b"1\n00:00:01,000 --> 00:00:04,000\nA man sleeps.\n\nTwo dogs run.\n\n\nMore lines here.\n\n"
        b"2\r\n00:00:05,000 --> 00:00:07,000\n\nThe car is fast.\n\n3\n00:00:08,000 --> 00:00:09,000\n\n"
    )
    assert [plain_text(text) for text in texts("a.srt", document)] == [
        "A man sleeps.", "Two dogs run.", "More lines here.", "The car is fast.",
    ]  # fmt: skip
    assert render("a.srt", document, swap_case) == document.swapcase()
    assert render("a.srt", document, identity) == document


def test_lines_with_repeated_tags_are_translated_as_a_single_text():
    document = (
        b"1\n00:00:01,000 --> 00:00:03,000\n<i>A man sleeps in the very big house</i>\n"
        b"<i>and two dogs run around it all day.</i>\n"
    )
    [text] = texts("a.srt", document)
    assert plain_text(text) == "A man sleeps in the very big house and two dogs run around it all day."
    rendered = render("a.srt", document, swap_case)
    assert rendered == document.swapcase().replace(b"I>", b"i>")


def test_voice_tags_stay_in_their_cues():
    document = (
        b"WEBVTT\n\n00:01.000 --> 00:02.000\n<v Roger B>We are in New York,\n\n"
        b"00:02.500 --> 00:03.000\n<v Roger B>and it is nice\n\n"
        b"00:03.200 --> 00:04.000\n<v.loud Neil>here too</v>\n\n"
        b"00:04.500 --> 00:05.000\n<v Mary>Yes\n<v Neil>Oh\n"
    )
    assert [plain_text(text) for text in texts("a.vtt", document)] == [
        "We are in New York, and it is nice", "here too", "Yes", "Oh",
    ]  # fmt: skip
    rendered = render("a.vtt", document, swap_case).decode()
    assert "<v Roger B>wE ARE IN nEW yORK,\n" in rendered and "<v Roger B>AND IT IS NICE\n" in rendered
    assert "<v.loud Neil>HERE TOO</v>\n" in rendered and "<v Mary>yES\n<v Neil>oH\n" in rendered

# ruff: noqa: E501 (documents are shown as they are)
import re

import pytest
from document_laws import SWAPPED, render, swapped, texts, unchanged
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.errors import DataError

TIME = re.compile(r"[\d:.,]+ --> [^\n]*")
TAG = re.compile(r"</?i>|<v [^>]*>|\{\\an8\}")
LINE = st.lists(st.text("abcXYZ'é漢", min_size=1, max_size=8), min_size=1, max_size=6).map(" ".join)
CUE = st.tuples(
    st.lists(LINE, min_size=1, max_size=2), st.sampled_from(["", ".", "?", ","]), st.booleans(), st.booleans()
)


def file(cues, mark, head=""):
    rows = []
    for number, (lines, end, italic, far) in enumerate(cues):
        text = "\n".join(lines) + end
        text = f"<i>{text}</i>" if italic else text
        begin = number * 4 + (3 * number if far else 0)
        rows.append(
            f"{number + 1}\n00:{begin // 60:02}:{begin % 60:02}{mark}000 --> 00:{begin // 60:02}:{begin % 60:02}{mark}900\n{text}\n"
        )
    return head + "\n".join(rows)


def words(text):
    text = text.removeprefix("WEBVTT")
    body = re.sub(r"^\d+$", "", TIME.sub("", text), flags=re.MULTILINE).replace("…", "")
    return "".join(TAG.sub("", body).split())


@settings(deadline=None, max_examples=50)
@given(st.lists(CUE, max_size=7), st.booleans())
def test_times_stay_and_no_word_is_lost(cues, vtt):
    text = file(cues, "." if vtt else ",", "WEBVTT\n\n" if vtt else "")
    name = "a.vtt" if vtt else "a.srt"
    assert render(name, text.encode(), unchanged).decode() == text
    changed = render(name, text.encode(), swapped).decode()
    assert TIME.findall(changed) == TIME.findall(text)
    assert words(changed) == words(text).translate(SWAPPED)
    assert changed.count("<i>") == changed.count("</i>")
    assert len(re.findall(r"\n\n", changed)) == len(re.findall(r"\n\n", text))


@settings(deadline=None, max_examples=30)
@given(st.lists(CUE, min_size=1, max_size=5), st.booleans(), st.sampled_from(["\r\n", "\r"]))
def test_lines_may_end_in_any_way(cues, vtt, end):
    text = file(cues, "." if vtt else ",", "WEBVTT\n\n" if vtt else "")
    name = "a.vtt" if vtt else "a.srt"
    other = text.replace("\n", end).encode()
    assert render(name, other, unchanged) == other
    assert render(name, other, swapped) == render(name, text.encode(), swapped).replace(b"\n", end.encode())


FILM = """1
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


def test_a_sentence_runs_through_cues():
    read = ["".join(p if isinstance(p, str) else "|" for p in one) for one in texts("a.srt", FILM.encode())]
    assert read == [
        "|It was the best of times, it was the worst of times.|",
        "Who said that?",
        "Nobody.",
    ]
    made = render("a.srt", FILM.encode(), swapped).decode()
    assert "<i>iT WAS THE BEST OF TIMES,</i>\n\n2" in made
    assert "<i>IT WAS THE\nWORST OF TIMES.</i>" in made and "- wHO SAID THAT?\n- nOBODY.\n" in made


def test_longer_translations_are_balanced_lines():
    def long(inlines):
        return [("word " * 16 + "end.",) for _ in inlines]

    made = render("a.srt", b"1\n00:00:01,000 --> 00:00:03,000\nOne line.\n", long).decode()
    lines = made.split("\n")[2:4]
    assert abs(len(lines[0]) - len(lines[1])) < 6


def test_vtt_around_cues_stays():
    text = (
        "WEBVTT - A title\n\nSTYLE\n::cue { color: red }\n\nNOTE a remark\n\nid-1\n"
        "00:01.000 --> 00:02.000 align:start\n<v Roger>Salt &amp; <00:01.500>pepper\n\n"
    )
    made = render("a.vtt", text.encode(), swapped).decode()
    assert made == text.replace("Salt &amp; <00:01.500>pepper", "sALT &amp; <00:01.500>PEPPER")


def test_what_is_none_is_refused():
    with pytest.raises(DataError, match="holds no time"):
        texts("a.srt", b"just text")
    with pytest.raises(DataError, match="begin with WEBVTT"):
        texts("a.vtt", b"just text")

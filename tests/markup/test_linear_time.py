"""Every scanner of untrusted text takes time linear in its length, whatever the text is."""

# ruff: noqa: E501 (tables of texts)

from __future__ import annotations

import contextlib
import gc
import re
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from uwaga.alignment.words import word_spans
from uwaga.documents import DocumentOptions, DocumentSource, Unit, find_format
from uwaga.documents.formats.odt import _pieces as odt_pieces
from uwaga.documents.runs import WORD, paragraphs
from uwaga.errors import UwagaError
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.formats import Format, read_fragment
from uwaga.markup.inline import joined
from uwaga.markup.insert_tags import insert_tags
from uwaga.markup.placeholders import kept_placeholders
from uwaga.markup.strip_tags import strip_tags
from uwaga.markup.symbols import choose_symbols, missing, realign, restore, substitute
from uwaga.markup.units import Piece, written
from uwaga.results.translation import WordAlignment
from uwaga.translator.read import Messages, with_placeholders

USUAL = kept_placeholders(True)
Make = Callable[[int], str]
"""Builds a hostile text of about so many characters."""


def carried(inline: Inline) -> Inline:
    """Take a text through all that is done with it but searching: the translation is the text itself."""
    [inline] = with_placeholders([inline], USUAL)
    inline = Messages(USUAL).take_apart(inline, "text")
    with_symbols, symbols = substitute(inline, choose_symbols(inline, 0))
    stripped = strip_tags(with_symbols)
    spans = tuple(word_spans(stripped.text))
    alignment = WordAlignment(spans, spans, tuple((at, at) for at in range(len(spans))))
    missing(symbols, stripped.text)
    placed = insert_tags(stripped, stripped.text, alignment, [symbol.text for symbol in symbols])
    made = restore(placed, symbols)
    texts = stripped.text, plain_text(made)
    realign(alignment, (stripped.text, plain_text(inline)), texts, symbols, [])
    return made


def translated(inline: Inline) -> Inline:
    """As documents do: placeholders are text again, and the text is another, so that it is written."""
    tags = {part for part in inline if isinstance(part, Tag)}
    made = carried(inline)
    return joined([*(part if isinstance(part, str) or part in tags else part.raw for part in made), " x"])


def write_all(pieces: Iterator[Piece]) -> None:
    for piece in pieces:
        if isinstance(piece, Unit):
            written(piece, [translated(inline) for inline in piece.inlines])


def string(format_: Format) -> Callable[[str], None]:
    def run(text: str) -> None:
        fragment = read_fragment(text, format_)
        fragment.written([carried(inline) for inline in fragment.inlines])

    return run


def document(name: str, **options: object) -> Callable[[str], None]:
    def run(text: str) -> None:
        how = DocumentOptions(target="pl", **options)  # type: ignore[arg-type]
        found = find_format(Path(name)).read
        assert found is not None
        write_all(iter(found(DocumentSource(name, text.encode(), how)).pieces))

    return run


def times(text: str, before: str = "", after: str = "") -> Make:
    """Repeat a text; ``#`` in it is a number, another each time."""
    numbered = "#" in text and not text.startswith(("#", "&", "a #"))

    def make(size: int) -> str:
        count = size // len(text) + 1
        body = "".join(text.replace("#", str(at)) for at in range(count)) if numbered else text * count
        return before + body + after

    return make


def nested(opening: str, closing: str, most: int = 1 << 30, before: str = "", after: str = "") -> Make:
    def make(size: int) -> str:
        count = min(most, size // (len(opening) + len(closing)))
        return before + opening * count + "word " * 3 + closing * count + after

    return make


def cues(text: Callable[[int], str], count: int = 8) -> Make:
    return lambda size: "".join(
        f"{at}\n00:00:{at:02},000 --> 00:00:{at:02},900\n{text(size // count)}\n\n"
        for at in range(1, count + 1)
    )


def all_of(*texts: str) -> list[Make]:
    return [times(text) for text in texts]


PLACEHOLDERS = [
    *all_of("%", "%0", "%(", "%1$", "{", "{{", "${", "$a/", "/a", "/+", "+/", "@a", "a@a.", "http://!", "www."),
    *all_of("+1", "1,", "1 kg ", "2 kg 3 km ", "a/b.", "a:\\!", "../", "a-b.", "{n,plural,a{", "{n,plural,a{b}} "),
    *all_of("{'", "%s ", "a.txt ", "é", "漢", "न", "'", "#", "\u0301", "{x#} ", "{x}{y}", "Tom 20 ", "##kg "),
    times("0", "%"), times("0", "%", "d"), times("-+#0", "%"), times("A_", "%"), times("!", "http://"),
    times(" ", "{n"), times("1", "{n,plural,offset:"), times("x# {a # b}", "{n,plural,", "}"),
    nested("{n,plural,other{", "}}"), nested("{", "}"), times("x# kg and "), times("{k#} ", "", "1 kg"),
]  # fmt: skip
HTML = [
    *all_of("<a", "<a ", "</a", "</", "<![CDATA[", "<!--", "<!", "<?", "<b>x</i>", "<b>", "</b>", '<a "', "<a b='"),
    *all_of('<a "<a "', "<a \"'", "&", "&#", "&#0", "&amp;", "<script>", "</script", "<textarea>", "<xmp>", "<td>"),
    *all_of("x<br>", "<code>", "<code>x</code> ", '<a title="x y">', '<img alt="a b">', "<b>a </b>", "<title>"),
    *all_of("<x# translate=no>", "<x# translate=no>a</x#> ", "<x#>a ", "<x#>a</x#>", '<a title="a #">b</a> '),
    *all_of("<span translate=no>a</span> ", "<a href=#>a</a> ", "<meta name=description content='a b'>", "<plaintext>"),
    times('"<a "', "<a "), times("0", "&#"), nested("<b>a ", " c</b>"), nested("<div>a", "</div>"),
    times("word ", "<b>", "</b>"), nested("<span translate=no>a", "</span>"), times(" a=b", "<a", ">"),
]  # fmt: skip
XML = [
    *all_of("<b>a</b> ", "<b/>", "<!-- a -->a ", "<![CDATA[a]]> ", "<?a b?>", "<ph>a</ph> ", "&amp;", ">", '"'),
    *all_of("<x#>a</x#> ", "<x# translate='no'>a</x#> "),
    nested("<b>a ", " </b>"), nested("<ph>a", "</ph>"), times("a#='x' ", "<b ", "/>"),
]  # fmt: skip
MARKDOWN = [
    *all_of("*", "**a", "*a_", "_", "`a``", "[", "[a](", "[a](b) ", "![", "](", "<a", "a\n", "# a\n", "- a\n", "> "),
    *all_of("|a|b|\n", "~~a", "\\", "\ra", "\u2028a", "\x0b", "```\n", "<div>\n", "[a]: b\n", "[a#]: b\n", "- - "),
    *all_of("$", "$a", "[^1]", "[^", ":a:", ":a", "a\n: b\n", "<b>a</b> ", "(", "[](", "<!-- a -->\n", "a\x85"),
    times("|c|d|\n", "|a|b|\n|-|-|\n"), times("(", "[a]("), times("a|", "|a|\n|-|\n|"), times("> a b\n"),
    times('<a "', "<div>"), times("k#: v w\n", "---\n", "---\n"), times("word "),
]  # fmt: skip
SUBTITLES = [
    *(cues(lambda n, text=text: text * (n // len(text)), count) for count in (1, 8) for text in (
        "word ", "ab,\n", "<i>a</i> ", "<i>a ", "漢", "{\\", "<a", "- a\n", ".", ").", "<", " ", "\n", "a\n1\n",
    )),
    *all_of("0:0:0,0 --> 0:0:0,0\n", "1\n", "00:00:01,000 --> "),
    times(" ", "0:0:0,0 --> 0:0:0,0\n"), times("a\r ", "0:0:0,0 --> 0:0:0,0\n"),
]  # fmt: skip
YAML = [
    *all_of("k#: v w\n", "- a b\n", "---\na b\n", "k#:\n  one: a b\n  other: c d\n", "k#: |\n  a b\n\n", "- "),
    times("k", "? ", "\n: v w\n"), times("a b, ", "[", "]"), times("  word\n", "a: |\n"), times("\\n", 'a: "', '"'),
    times("word ", "a: "), times("\n", "a: |\n  b\n", "c: d\n"), times(" a#: b c\n", "k" * 900 + ":\n"),
    times("[", "[" * 1100),  # PyYAML looks 1,024 characters ahead
    lambda size: "".join(" " * at + "k" * (size // 200) + ":\n" for at in range(90))
    + "".join(" " * 95 + f"a{at}: b c\n" for at in range(size // 200)),
]  # fmt: skip
JSON = [
    times('"k#": "v w",', "{", '"z": "a b"}'), times("k", '{"', '": "v w"}'), times("\\n", '["', '"]'), times('"'),
    nested("[", "]", 500), nested('{"a.b":', "}", 500, after=""), times(',"k#_one": "a b"', '{"x": "y"', "}"),
    lambda size: '{"' + "k" * (size // 2) + '":{' + ",".join(f'"k{at}":"v w"' for at in range(size // 24)) + "}}",
    lambda size: "[" * 500 + ",".join(['"v w"'] * (size // 12)) + "]" * 500,
]  # fmt: skip
PO = [
    *all_of('msgid "a #"\nmsgstr ""\n\n', "# a\n", 'msgid "a #"\nmsgid_plural "b c"\nmsgstr[0] ""\nmsgstr[1] ""\n\n'),
    *(times(text, 'msgid "a ', '"\nmsgstr ""\n') for text in ("word ", "\\n", "\\\\", "\\", '\\"', "a", "\\\\n")),
    times(" ", 'msgid "a"', '\nmsgstr ""\n'), times('"word "\n', 'msgid ""\n', 'msgstr ""\n'),
    times("#, fuzzy\n", "", 'msgid "a b"\nmsgstr ""\n'),
]  # fmt: skip
CSV = [
    times("x y,z\n", "a,b\n"), times('"x ""y""",z\n', "a,b\n"), times('""', 'a,b\n"', '",x\n'), times("x ", 'a,b\n"'),
    times("\n", "a,b\n"), times("a,"), times("word ", "a,b\n", ",x\n"),
]  # fmt: skip
STRINGS = [
    *all_of('"k#" = "a b";\n', "/* a */", "//\n", "/*", " /**/", "a;", '"', "/"),
    times('\\"', '"k" = "', '";'), times(" ", "a", '= "b c";'), times("*", "/*"),
]  # fmt: skip
PLIST = [
    times(text, '<?xml version="1.0"?><plist version="1.0"><dict>', "</dict></plist>")
    for text in ("<key>one</key><string>a #</string>", "<key>one</key><array><string>a</string></array>")
]
ANDROID = [
    times(text, '<resources xmlns:xliff="x"><string name="a">a ', "</string></resources>")
    for text in ("word ", "\\n", "\\", " ", "'", "&amp;", "<b>x</b> a ", "<xliff:g>x</xliff:g> a ", ">")
]
XLIFF = [
    times(text, '<xliff version="1.2"><file><body>', "</body></file></xliff>")
    for text in (
        '<trans-unit id="#"><source>a b</source></trans-unit>',
        '<trans-unit id="#"><source>a <g id="1">b</g> <ph/></source><target state="new">a</target></trans-unit>',
        '<group translate="no"><trans-unit id="#"><source>a b</source></trans-unit></group>',
    )
]
TXT = [*all_of("a\n", "word ", "\n", " ", "- a\n", "1. a\n", "a\r", " a\n", "\x0b"), times(" \n", "a", "b")]
RUN = "<w:r><w:t>a b</w:t></w:r>"
DOCX = [
    *(times(text, "<w:p>" + RUN, "</w:p>") for text in (
        RUN, '<w:r><w:rPr><w:sz w:val="#"/></w:rPr><w:t>a b </w:t></w:r>', "<w:r><w:t>a</w:t><w:br/></w:r>",
        f"<w:hyperlink>{RUN}</w:hyperlink>", '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
        f'<w:r><w:pict id="#"><w:p>{RUN}</w:p></w:pict></w:r>',
    )),
    nested("<w:hyperlink>" + RUN, "</w:hyperlink>", 200, "<w:p>", "</w:p>"),
    times(" ", "<w:p><w:r><w:rPr><w:a", "></w:a></w:rPr><w:t>a b</w:t></w:r></w:p>"),
]  # fmt: skip
ODT = [
    times("<text:p>a b</text:p>"), times("<text:span>a</text:span> ", "<text:p>", "</text:p>"),
    times('<text:note id="#"><text:p>b c</text:p></text:note>', "<text:p>a", "</text:p>"),
]  # fmt: skip


def as_vtt(make: Make) -> Make:
    stamp = re.compile(r"^[\d:]+,(\d+) --> [\d:]+,(\d+)", re.MULTILINE)
    return lambda size: "WEBVTT\n\n" + stamp.sub("00:01.000 --> 00:02.000", make(size))


KEYS = ("k.**.b", "x.*", "a.b")
SYNTAXES: dict[str, tuple[Callable[[str], None], list[Make]]] = {
    "text": (string("text"), PLACEHOLDERS),
    "html": (string("html"), HTML),
    "xml": (string("xml"), XML),
    "markdown": (string("markdown"), MARKDOWN),
    ".srt": (document("a.srt"), SUBTITLES),
    ".vtt": (document("a.vtt"), [as_vtt(make) for make in SUBTITLES[::3]]),
    ".yaml": (document("a.yaml", keys=KEYS), YAML),
    ".json": (document("a.json", keys=KEYS), JSON),
    ".po": (document("a.po"), PO),
    ".csv": (document("a.csv", columns=("a",)), CSV),
    ".strings": (document("a.strings"), STRINGS),
    ".stringsdict": (document("a.stringsdict"), PLIST),
    "strings.xml": (document("strings.xml"), ANDROID),
    ".xlf": (document("a.xlf"), XLIFF),
    ".txt": (document("a.txt"), TXT),
    ".docx": (lambda text: write_all(paragraphs(text, WORD)), DOCX),
    ".odt": (lambda text: write_all(odt_pieces(text)), ODT),
}
SLOW = ("markdown", ".yaml")
"""Syntaxes whose libraries take long for each character."""
FLOOR = 0.03
"""Seconds that are no growth: what a busy machine adds."""


def seconds(run: Callable[[str], None], text: str, attempts: int = 1) -> float:
    best = float("inf")
    for _ in range(attempts):
        started = time.process_time()
        with contextlib.suppress(UwagaError):  # a text that is refused must be refused in linear time
            run(text)
        best = min(best, time.process_time() - started)
    return best


def check(syntax: str, sizes: tuple[int, ...]) -> None:
    run, makes = SYNTAXES[syntax]
    gc.collect()
    gc.disable()
    try:
        for make in makes:
            texts = [make(size) for size in sizes]
            seconds(run, texts[0])
            before = seconds(run, texts[0])
            for small, large in pairwise(texts):
                allowed = 1.5 * before * len(large) / len(small) + FLOOR
                before = seconds(run, large)
                if before > allowed:  # perhaps the machine was busy
                    allowed = 1.5 * seconds(run, small, 5) * len(large) / len(small) + FLOOR
                    before = seconds(run, large, 5)
                assert before <= allowed, f"{large[:60]!r}: {before:.2f} s, allowed {allowed:.2f}"
    finally:
        gc.enable()


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_ten_times_the_text_takes_ten_times_the_time(syntax):
    check(syntax, (200, 2_000) if syntax in SLOW else (500, 5_000))


@pytest.mark.slow
@pytest.mark.parametrize("syntax", [syntax for syntax in SYNTAXES if syntax not in SLOW])
def test_ten_thousand_characters_take_ten_times_the_time_of_a_thousand(syntax):
    check(syntax, (1_000, 10_000))

"""Texts that superlinear scanners are slow on, by syntax, in any length."""

# ruff: noqa: E501 (tables of texts)

from __future__ import annotations

import re
from collections.abc import Callable

Make = Callable[[int], str]
"""Builds a text of about so many characters."""


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
    *all_of("a_", "1-", "1.", "a:", "(030) ", "f1", "Ctrl+a", "aA"), times("1 ", "+"), times("0", "%"), times("0", "%", "d"), times("-+#0", "%"), times("A_", "%"), times("!", "http://"),
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
    times("word ", "a: "), times("\n", "a: |\n  b\n", "c: d\n"), lambda size: times(" a#: b c\n", "k" * min(900, size // 10) + ":\n")(size),
    times("<b>x</b> ", "a: "), times("&amp; ", "a: "), times("<a ", "a: "), times("&a_", "a: '", "'"),
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
    *(times(text, 'msgid "a ', '"\nmsgstr ""\n') for text in ("&a", "& ", "_a ", "A&", "<b>x</b> ", "<0>")),
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
        RUN, '<w:r><w:rPr><w:sz w:val="#"/></w:rPr><w:t>a b </w:t></w:r>', "<w:r><w:t>a</w:t><w:br/></w:r>", "<w:r><w:t>a\tb</w:t></w:r>",
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


SENTENCES = [
    *all_of("a. ", "A. ", ". ", ".", "Dr. ", "e.g. ", "? ", "!", '"a." ', '"', "(a. ", "(", "' ", "\u201e", "1. ", "...", "a.a.", "。", "漢。", " "),
    *all_of("a\n", "\n", "\r", "\r\n", "\n ", "a.\u3000", "\u2028", "a\t", "1", "é", "\u0301", "नमस्ते। ", "😀", "a, b; ", "A B ", "#a. "),
    *all_of("a@b.c ", "http://a.b ", "-", "I. ", "z. B. ", "word ", "Word. ", "\x00", "\ufeff", "\u200d", "ﬁ", "İ", "xyzzy"),
]  # fmt: skip
TERMS = [
    *all_of("a ", "a a b ", "A. a ", "a\n", "apple ", "An apple. ", "a-", "aa ", "漢"),
    times("a ", "b "),
]
GLOSSARIES = [
    *all_of("k#\tv\n", "k#\tv|w|x\n", "\n", "#\n"), times("a ", "", "\tb\n"), times("a|", "a\t", "\n"), times("\t", "a"),
]  # fmt: skip

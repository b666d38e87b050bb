"""Texts of any length, by syntax, on which scanners that take superlinear time are slow."""

# ruff: noqa: E501 (tables of texts)

import re
from collections.abc import Callable

TextBuilder = Callable[[int], str]
"""Type of functions that build a text of about ``size`` characters."""


def repeat(text: str, before: str = "", after: str = "") -> TextBuilder:
    """Return a function that repeats a text, with ``#`` replaced by the number of the repetition."""
    numbered = "#" in text and not text.startswith(("#", "&", "a #"))

    def make(size: int) -> str:
        count = size // len(text) + 1
        body = "".join(text.replace("#", str(index)) for index in range(count)) if numbered else text * count
        return before + body + after

    return make


def nested(
    opening: str, closing: str, max_count: int = 1 << 30, before: str = "", after: str = ""
) -> TextBuilder:
    def make(size: int) -> str:
        count = min(max_count, size // (len(opening) + len(closing)))
        return before + opening * count + "word " * 3 + closing * count + after

    return make


def cues(text: Callable[[int], str], count: int = 8) -> TextBuilder:
    return lambda size: "".join(
        f"{index}\n00:00:{index:02},000 --> 00:00:{index:02},900\n{text(size // count)}\n\n"
        for index in range(1, count + 1)
    )


def repeat_each(*texts: str) -> list[TextBuilder]:
    return [repeat(text) for text in texts]


PLACEHOLDERS = [
    *repeat_each("%", "%0", "%(", "%1$", "{", "{{", "${", "$a/", "/a", "/+", "+/", "@a", "a@a.", "http://!", "www."),
    *repeat_each("+1", "1,", "1 kg ", "2 kg 3 km ", "a/b.", "a:\\!", "../", "a-b.", "{n,plural,a{", "{n,plural,a{b}} "),
    *repeat_each("{'", "%s ", "a.txt ", "é", "漢", "न", "'", "#", "\u0301", "{x#} ", "{x}{y}", "Tom 20 ", "##kg "),
    *repeat_each("a_", "1-", "1.", "a:", "(030) ", "f1", "Ctrl+a", "aA"), repeat("1 ", "+"), repeat("0", "%"), repeat("0", "%", "d"), repeat("-+#0", "%"), repeat("A_", "%"), repeat("!", "http://"),
    *repeat_each("<%", "<% a %> ", "%<a", "%<a>s ", "%a", "%a_", "%'", "%s %d ", "$a$", "$a", "{a:{", "%1%", "{n,choice,{", "%(a)"),
    repeat(" ", "{n"), repeat("1", "{n,plural,offset:"), repeat("x# {a # b}", "{n,plural,", "}"),
    nested("{n,plural,other{", "}}"), nested("{", "}"), repeat("x# kg and "), repeat("{k#} ", "", "1 kg"),
]  # fmt: skip
HTML = [
    *repeat_each("<a", "<a ", "</a", "</", "<![CDATA[", "<!--", "<!", "<?", "<b>x</i>", "<b>", "</b>", '<a "', "<a b='"),
    *repeat_each('<a "<a "', "<a \"'", "&", "&#", "&#0", "&amp;", "<script>", "</script", "<textarea>", "<xmp>", "<td>"),
    *repeat_each("x<br>", "<code>", "<code>x</code> ", '<a title="x y">', '<img alt="a b">', "<b>a </b>", "<title>"),
    *repeat_each("<x# translate=no>", "<x# translate=no>a</x#> ", "<x#>a ", "<x#>a</x#>", '<a title="a #">b</a> '),
    *repeat_each("<span translate=no>a</span> ", "<a href=#>a</a> ", "<meta name=description content='a b'>", "<plaintext>"),
    repeat('"<a "', "<a "), repeat("0", "&#"), nested("<b>a ", " c</b>"), nested("<div>a", "</div>"),
    repeat("word ", "<b>", "</b>"), nested("<span translate=no>a", "</span>"), repeat(" a=b", "<a", ">"),
]  # fmt: skip
XML = [
    *repeat_each("<b>a</b> ", "<b/>", "<!-- a -->a ", "<![CDATA[a]]> ", "<?a b?>", "<ph>a</ph> ", "&amp;", ">", '"'),
    *repeat_each("<x#>a</x#> ", "<x# translate='no'>a</x#> "),
    nested("<b>a ", " </b>"), nested("<ph>a", "</ph>"), repeat("a#='x' ", "<b ", "/>"),
]  # fmt: skip
MARKDOWN = [
    *repeat_each("*", "**a", "*a_", "_", "`a``", "[", "[a](", "[a](b) ", "![", "](", "<a", "a\n", "# a\n", "- a\n", "> "),
    *repeat_each("|a|b|\n", "~~a", "\\", "\ra", "\u2028a", "\x0b", "```\n", "<div>\n", "[a]: b\n", "[a#]: b\n", "- - "),
    *repeat_each("$", "$a", "[^1]", "[^", ":a:", ":a", "a\n: b\n", "<b>a</b> ", "(", "[](", "<!-- a -->\n", "a\x85"),
    repeat("|c|d|\n", "|a|b|\n|-|-|\n"), repeat("(", "[a]("), repeat("a|", "|a|\n|-|\n|"), repeat("> a b\n"),
    repeat('<a "', "<div>"), repeat("k#: v w\n", "---\n", "---\n"), repeat("word "),
]  # fmt: skip
SUBTITLES = [
    *(cues(lambda n, text=text: text * (n // len(text)), count) for count in (1, 8) for text in (
        "word ", "ab,\n", "<i>a</i> ", "<i>a ", "漢", "{\\", "<a", "- a\n", ".", ").", "<", " ", "\n", "a\n1\n",
    )),
    *repeat_each("0:0:0,0 --> 0:0:0,0\n", "1\n", "00:00:01,000 --> "),
    repeat(" ", "0:0:0,0 --> 0:0:0,0\n"), repeat("a\r ", "0:0:0,0 --> 0:0:0,0\n"),
]  # fmt: skip
YAML = [
    *repeat_each("k#: v w\n", "- a b\n", "---\na b\n", "k#:\n  one: a b\n  other: c d\n", "k#: |\n  a b\n\n", "- "),
    repeat("k", "? ", "\n: v w\n"), repeat("a b, ", "[", "]"), repeat("  word\n", "a: |\n"), repeat("\\n", 'a: "', '"'),
    repeat("word ", "a: "), repeat("\n", "a: |\n  b\n", "c: d\n"), lambda size: repeat(" a#: b c\n", "k" * min(900, size // 10) + ":\n")(size),
    repeat("<b>x</b> ", "a: "), repeat("&amp; ", "a: "), repeat("<a ", "a: "), repeat("&a_", "a: '", "'"),
    repeat("[", "[" * 1100),  # PyYAML looks 1,024 characters ahead
    lambda size: "".join(" " * depth + "k" * (size // 200) + ":\n" for depth in range(90))
    + "".join(" " * 95 + f"a{index}: b c\n" for index in range(size // 200)),
]  # fmt: skip
JSON = [
    repeat('"k#": "v w",', "{", '"z": "a b"}'), repeat("k", '{"', '": "v w"}'), repeat("\\n", '["', '"]'), repeat('"'),
    nested("[", "]", 500), nested('{"a.b":', "}", 500, after=""), repeat(',"k#_one": "a b"', '{"x": "y"', "}"),
    lambda size: '{"' + "k" * (size // 2) + '":{' + ",".join(f'"k{index}":"v w"' for index in range(size // 24)) + "}}",
    *(repeat(text, '["', '"]') for text in (":a ", "@:a.", "<%", "%<a", "%<a>s ", "{n,plural,a{<b>x</b>}} ", "{n,plural,a{", "<b>:a</b> ", "$t(")),
    lambda size: "[" * 500 + ",".join(['"v w"'] * (size // 12)) + "]" * 500,
]  # fmt: skip
PO = [
    *repeat_each('msgid "a #"\nmsgstr ""\n\n', "# a\n", 'msgid "a #"\nmsgid_plural "b c"\nmsgstr[0] ""\nmsgstr[1] ""\n\n'),
    *(repeat(text, 'msgid "a ', '"\nmsgstr ""\n') for text in ("word ", "\\n", "\\\\", "\\", '\\"', "a", "\\\\n")),
    repeat(" ", 'msgid "a"', '\nmsgstr ""\n'), repeat('"word "\n', 'msgid ""\n', 'msgstr ""\n'),
    *(repeat(text, 'msgid "a ', '"\nmsgstr ""\n') for text in ("&a", "& ", "_a ", "A&", "<b>x</b> ", "<0>")),
    *(repeat(text, '#, c-format\nmsgid "a ', '"\nmsgstr ""\n') for text in ("%s ", "%", "%%", "%1$s ", "<b>%s</b> ", "%'")),
    *(repeat(text, 'msgid "a ', '"\nmsgstr ""\n') for text in ("!a-", "!a ", "@a", ":a")),
    repeat("a: b\\n", 'msgid ""\nmsgstr "', '"\n'), repeat('"a"\n', 'msgid ""\nmsgstr ""\n'),
    repeat("#, fuzzy\n", "", 'msgid "a b"\nmsgstr ""\n'),
]  # fmt: skip
CSV = [
    repeat("x y,z\n", "a,b\n"), repeat('"x ""y""",z\n', "a,b\n"), repeat('""', 'a,b\n"', '",x\n'), repeat("x ", 'a,b\n"'),
    repeat("\n", "a,b\n"), repeat("a,"), repeat("word ", "a,b\n", ",x\n"),
]  # fmt: skip
STRINGS = [
    *repeat_each('"k#" = "a b";\n', "/* a */", "//\n", "/*", " /**/", "a;", '"', "/"),
    repeat('\\"', '"k" = "', '";'), repeat(" ", "a", '= "b c";'), repeat("*", "/*"),
]  # fmt: skip
PLIST = [
    repeat(text, '<?xml version="1.0"?><plist version="1.0"><dict>', "</dict></plist>")
    for text in ("<key>one</key><string>a #</string>", "<key>one</key><array><string>a</string></array>")
]
ANDROID = [
    repeat(text, '<resources xmlns:xliff="x"><string name="a">a ', "</string></resources>")
    for text in (
        "word ", "\\n", "\\", " ", "'", "&amp;", "<b>x</b> a ", "<xliff:g>x</xliff:g> a ", ">",
        "&lt;b>x&lt;/b> ", "%s ", '"', "<![CDATA[<b>a</b>]]>",
    )
]  # fmt: skip
XLIFF = [
    repeat(text, '<xliff version="1.2"><file><body>', "</body></file></xliff>")
    for text in (
        '<trans-unit id="#"><source>a b</source></trans-unit>',
        '<trans-unit id="#"><source>a <g id="1">b</g> <ph/></source><target state="new">a</target></trans-unit>',
        '<group translate="no"><trans-unit id="#"><source>a b</source></trans-unit></group>',
    )
]
TXT = [
    *repeat_each("a\n", "word ", "\n", " ", "- a\n", "1. a\n", "a\r", " a\n", "\x0b"),
    repeat(" \n", "a", "b"),
]
RUN = "<w:r><w:t>a b</w:t></w:r>"
DOCX = [
    *(repeat(text, "<w:p>" + RUN, "</w:p>") for text in (
        RUN, '<w:r><w:rPr><w:sz w:val="#"/></w:rPr><w:t>a b </w:t></w:r>', "<w:r><w:t>a</w:t><w:br/></w:r>", "<w:r><w:t>a\tb</w:t></w:r>",
        f"<w:hyperlink>{RUN}</w:hyperlink>", '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
        f'<w:r><w:pict id="#"><w:p>{RUN}</w:p></w:pict></w:r>',
    )),
    nested("<w:hyperlink>" + RUN, "</w:hyperlink>", 200, "<w:p>", "</w:p>"),
    repeat(" ", "<w:p><w:r><w:rPr><w:a", "></w:a></w:rPr><w:t>a b</w:t></w:r></w:p>"),
]  # fmt: skip
ODT = [
    repeat("<text:p>a b</text:p>"), repeat("<text:span>a</text:span> ", "<text:p>", "</text:p>"),
    repeat('<text:note id="#"><text:p>b c</text:p></text:note>', "<text:p>a", "</text:p>"),
]  # fmt: skip


def as_vtt(make: TextBuilder) -> TextBuilder:
    stamp = re.compile(r"^[\d:]+,(\d+) --> [\d:]+,(\d+)", re.MULTILINE)
    return lambda size: "WEBVTT\n\n" + stamp.sub("00:01.000 --> 00:02.000", make(size))


SENTENCES = [
    *repeat_each("a. ", "A. ", ". ", ".", "Dr. ", "e.g. ", "? ", "!", '"a." ', '"', "(a. ", "(", "' ", "\u201e", "1. ", "...", "a.a.", "。", "漢。", " "),
    *repeat_each("a\n", "\n", "\r", "\r\n", "\n ", "a.\u3000", "\u2028", "a\t", "1", "é", "\u0301", "नमस्ते। ", "😀", "a, b; ", "A B ", "#a. "),
    *repeat_each("a@b.c ", "http://a.b ", "-", "I. ", "z. B. ", "word ", "Word. ", "\x00", "\ufeff", "\u200d", "ﬁ", "İ", "xyzzy"),
]  # fmt: skip
TERMS = [
    *repeat_each("a ", "a a b ", "A. a ", "a\n", "apple ", "An apple. ", "a-", "aa ", "漢"),
    repeat("a ", "b "),
]
GLOSSARIES = [
    *repeat_each("k#\tv\n", "k#\tv|w|x\n", "\n", "#\n"), repeat("a ", "", "\tb\n"), repeat("a|", "a\t", "\n"), repeat("\t", "a"),
]  # fmt: skip

# ruff: noqa: E501 (pages are shown as they are)
"""The structure of HTML is preserved in translations, in the cases that bergamot-translator tests (html_tests, xh_scanner_tests).

The differences are by design. A pair of tags inside a word goes around the whole word, where bergamot leaves it
empty before it or adds spaces, unless the translation has the same word; white space around a text is kept; ``&notit;`` is ``¬it;``, as in a browser;
and without an alignment the order of the words decides, where bergamot stops.
"""

import pytest

from uwaga.alignment.words import word_spans
from uwaga.markup.formats import read_fragment
from uwaga.markup.insert_tags import insert_tags
from uwaga.markup.strip_tags import strip_tags
from uwaga.results.translation import WordAlignment


def translate(html: str, *translations: str) -> str:
    """Insert the tags of a page's texts into translations, such as ``Ich fahre | 0-0 1-2``; without links the
    words are linked in order.
    """
    fragment = read_fragment(html, "html")
    inlines = []
    for inline, translation in zip(fragment.inlines, translations, strict=True):
        stripped = strip_tags(inline)
        target, _, given_links = translation.partition(" | ")
        sources, targets = word_spans(stripped.text), word_spans(target)
        in_order = " ".join(f"{i}-{i}" for i in range(min(len(sources), len(targets))))
        links = [tuple(map(int, link.split("-"))) for link in (given_links or in_order).split()]
        alignment = WordAlignment(tuple(sources), tuple(targets), tuple(sorted(links)))
        inlines.append(insert_tags(stripped, target, alignment))
    return fragment.write(inlines)


CASES = [
    # nothing to translate
    ("", [], ""),
    ("<p></p>", [], "<p></p>"),
    ("hello <br>", ["hallo"], "hallo <br>"),
    ("hello <u></u>", ["hallo"], "hallo <u></u>"),
    ("<p>hello <br></p>", ["hallo"], "<p>hallo <br></p>"),
    # pairs
    ("<p>hello <b>world</b></p>\n", ["hallo Welt"], "<p>hallo <b>Welt</b></p>\n"),
    ("<p>Hello <b>world</b> how <u>are you</u>?</p>", ["Hallo Welt wie geht's dir?"], "<p>Hallo <b>Welt</b> wie <u>geht's dir</u>?</p>"),
    ("<p>hello <b>world &amp; friends!</b></p>", ["hallo Welt & Freunde!"], "<p>hallo <b>Welt &amp; Freunde!</b></p>"),
    ("<p>I <b>like</b> to <u>drive</u> this car.</p>", ["Ich fahre gerne dieses Auto. | 0-0 1-2 3-1 4-3 5-4 6-5"], "<p>Ich <u>fahre</u> <b>gerne</b> dieses Auto.</p>"),
    ("<p>I <b>like</b> to <u>drive</u> this car.</p>", ["Rád řídím to auto. | 0-0 2-1 4-2 5-3 6-4"], "<p>Rád <b></b>řídím <u></u>to auto.</p>"),
    ("<p>This <em>is a sentence. And so is</em> this.</p>\n", ["Dies ist ein Satz. Und so ist dies."], "<p>Dies <em>ist ein Satz. Und so ist</em> dies.</p>\n"),
    ("<p>hello <b>world!</b> How does this <img> <b>deal <u>with multiple sentences?</u></b> Will it work?</p>", ["hallo Welt! Wie geht das mit mehreren Sätzen um? Wird es funktionieren? | 0-0 1-1 2-2 3-3 4-4 5-5 6-9 7-6 8-7 9-8 10-10 11-11 12-12 13-13 14-14"], "<p>hallo <b>Welt!</b> Wie geht das <img> <b><u>mit mehreren Sätzen</u> um?</b> Wird es funktionieren?</p>"),
    ("<p>hello <img> <b>world</b> <u>and other <a href=\"#\">creatures</a></u></p>", ["hallo Welt und andere Wesen"], "<p>hallo <img> <b>Welt</b> <u>und andere <a href=\"#\">Wesen</a></u></p>"),
    # inside words
    ("un<u>der</u>line", ["subrayar"], "<u>subrayar</u>"),
    ("un<u>der</u>line", ["una linea | 0-0 0-1"], "<u>una linea</u>"),
    ("<p><input>H<u>e</u>llo <b>world</b></p>\n", ["Hallo Welt"], "<p><input><u>Hallo</u> <b>Welt</b></p>\n"),
    ("hel<wbr>lo you", ["hallo du"], "hallo<wbr> du"),
    ("hel<WBR>lo you", ["hallo du"], "hallo<WBR> du"),
    # unpaired elements
    ("<p>Space<br>please?</p>", ["Platz", "bitte?"], "<p>Platz<br>bitte?</p>"),
    ("<P><B>Spa</B>ce<BR>please?</p>", ["Platz", "bitte?"], "<P><B>Platz</B><BR>bitte?</p>"),
    ("<p>hello<img/>world</p>", ["hallo Welt"], "<p>hallo<img/>Welt</p>"),
    ('<p id="1">hello <img id="1.1"><span id="1.2"><u id="1.2.1"></u><b id="1.2.2"></b><img id="1.2.3">world</span></p>', ["hallo Welt"], '<p id="1">hallo <img id="1.1"><span id="1.2"><u id="1.2.1"></u><b id="1.2.2"></b><img id="1.2.3">Welt</span></p>'),
    # untranslated elements
    ('hello <script>alert("<foo>");</script>world', ["hallo", "Welt"], 'hallo <script>alert("<foo>");</script>Welt'),
    ("foo <!-- <ignore> me -->bar", ["oof rab"], "oof <!-- <ignore> me -->rab"),
    ("foo <var><var>nested</var></var> bar", ["oof rab"], "oof <var><var>nested</var></var> rab"),
    ("foo <var>&amp;</var> bar", ["oof rab"], "oof <var>&amp;</var> rab"),
    ("<style>body { background: url(test.png); }</style>a", ["b"], "<style>body { background: url(test.png); }</style>b"),
    ("<script async>true && document.body.length > 10</script>a", ["b"], "<script async>true && document.body.length > 10</script>b"),
    ('<?xml version="1.0"?>a', ["b"], '<?xml version="1.0"?>b'),
    # entities
    ("<p data-attr=\"&quot;&apos;\">A sentence &lt;with&gt; named &amp; entities</p>", ["Ein Satz <mit> benannten & Entitäten"], "<p data-attr=\"&quot;&apos;\">Ein Satz &lt;mit&gt; benannten &amp; Entitäten</p>"),
    ("a&amp;&apos;&nbsp;&quot;&lt;&gt;b", ["c&'\xa0\"<>d"], "c&amp;&apos;&nbsp;&quot;&lt;&gt;d"),
    ("testing " * 1024 + "it", ["Test " * 1024 + "es"], "Test " * 1024 + "es"),
    ("Hello & other people", ["Hallo & andere Leute"], "Hallo & andere Leute"),
    ("&unknown; a", ["&unknown; b"], "&unknown; b"),
    # attributes
    ('<div id="test" class="a b c ">a</div>', ["b"], '<div id="test" class="a b c ">b</div>'),
    ("<input checked hidden>a", ["b"], "<input checked hidden>b"),
    ("<div hidden=true class=test>a", ["b"], "<div hidden=true class=test>b"),
    ('<input class = "test" checked type = checkbox >a', ["b"], '<input class = "test" checked type = checkbox >b'),
    ("<div><p>a<img></p></div>", ["b"], "<div><p>b<img></p></div>"),
    ('before <img src="#"/> after', ["vorher nachher"], 'vorher <img src="#"/> nachher'),
    ('<div id="test-id" class="a b c ">\n<span x="Hello &quot;world&quot;"><!--\nthis is a comment -->this is &amp; text\n</span></div>', ["dies ist & Text"], '<div id="test-id" class="a b c ">\n<span x="Hello &quot;world&quot;"><!--\nthis is a comment -->dies ist &amp; Text\n</span></div>'),
]  # fmt: skip


@pytest.mark.parametrize(("html", "translations", "expected"), CASES)
def test_translation_preserves_the_html_structure(html, translations, expected):
    assert translate(html, *translations) == expected
    fragment = read_fragment(html, "html")
    assert fragment.write(fragment.inlines) == html


def test_all_tags_are_inserted_even_if_the_alignment_is_unusable():
    [inline] = read_fragment("<p>hello <b>world</b></p>", "html").inlines
    for alignment in (None, WordAlignment(((0, 1),), ((0, 99),), ((0, 0),))):
        placed = insert_tags(strip_tags(inline), "hallo Welt", alignment)
        assert "".join(part if isinstance(part, str) else part.raw for part in placed).count("b>") == 2

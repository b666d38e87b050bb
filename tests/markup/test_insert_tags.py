"""Tags are inserted once, properly nested, around the translations of the words that they enclosed."""

import re
import time
from collections import Counter
from xml.parsers import expat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.alignment.words import word_spans
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.formats import read_fragment
from uwaga.markup.insert_tags import insert_tags
from uwaga.markup.strip_tags import strip_tags
from uwaga.results.translation import WordAlignment

KINDS = ("open", "close", "void", "kept")
WORDS = st.sampled_from(("a", "Haus", "dog,", "x.", "don't", "狗", "über", "(", "7", "हिन्दी"))
BLANKS = st.sampled_from(("", " ", " ", "  "))


def open_tag(name: str) -> Tag:
    return Tag("open", f"<{name}>")


def close_tag(name: str) -> Tag:
    return Tag("close", f"</{name}>")


def raw_text(inline: Inline) -> str:
    return "".join(part if isinstance(part, str) else part.raw for part in inline)


def without_spaces(text: str) -> str:
    return "".join(text.split())


@st.composite
def inlines(draw: st.DrawFn) -> Inline:
    """Draw any tags between any words, including unpaired tags."""
    parts: list[str | Tag] = []
    for number in range(draw(st.integers(0, 14))):
        if draw(st.booleans()):
            parts.append(draw(BLANKS) + draw(WORDS) + draw(BLANKS))
        else:
            kind = draw(st.sampled_from(KINDS))
            parts.append(Tag(kind, f"<{kind} {number}>"))
    return tuple(parts)


@st.composite
def alignments(draw: st.DrawFn, source: str, target: str) -> WordAlignment | None:
    """Draw an alignment of the same or differently split words, with any links, or None."""
    if draw(st.integers(0, 9)) == 0:
        return None
    spans = [
        word_spans(text) if draw(st.booleans()) else space_separated_spans(text) for text in (source, target)
    ]
    pairs = [(i, j) for i in range(len(spans[0])) for j in range(len(spans[1]))]
    links = draw(st.sets(st.sampled_from(pairs), max_size=20)) if pairs else set()
    return WordAlignment(tuple(spans[0]), tuple(spans[1]), tuple(sorted(links)))


def space_separated_spans(text: str) -> tuple[tuple[int, int], ...]:
    spans, end = [], 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    return tuple(spans)


def tag_pairs(inline: Inline) -> list[tuple[Tag, Tag]]:
    """Return the pairs of opening and closing tags; a closing tag closes the last open tag."""
    open_tags, pairs = [], []
    for part in inline:
        if isinstance(part, Tag) and part.kind == "open":
            open_tags.append(part)
        elif isinstance(part, Tag) and part.kind == "close" and open_tags:
            pairs.append((open_tags.pop(), part))
    return pairs


@st.composite
def html_texts(draw: st.DrawFn, depth: int = 0) -> str:
    """Draw words with nested pairs of tags around them, and line breaks inside and outside pairs."""
    text = ""
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(("", "", "b", "i", "u", "br")))
        words = " ".join(draw(st.lists(st.sampled_from(("man", "dog", "red")), min_size=1, max_size=3)))
        if name == "br":
            text += f"{words}<br/>"
        elif name and depth < 3:
            text += f"<{name}>{draw(html_texts(depth + 1))}</{name}> "
        else:
            text += f"{words} "
    return text


@given(data=st.data())
def test_tags_around_line_breaks_stay_nested_in_any_order_of_words(data: st.DataObject) -> None:
    html = data.draw(html_texts())
    fragment = read_fragment(html, "html")
    translations = []
    for inline in fragment.inlines:
        stripped = strip_tags(inline)
        target = " ".join(data.draw(st.permutations(stripped.text.split())))
        translations.append(insert_tags(stripped, target, data.draw(alignments(stripped.text, target))))
    written = fragment.write(translations)
    expat.ParserCreate().Parse(f"<x>{written}</x>", True)
    tags = re.compile("<[^>]*>")
    assert Counter(tags.findall(written)) == Counter(tags.findall(html))


@given(data=st.data())
def test_tags_and_text_are_preserved_with_any_alignment(data: st.DataObject) -> None:
    inline = data.draw(inlines())
    stripped = strip_tags(inline)
    target = " ".join(data.draw(st.lists(WORDS, max_size=10)))
    placed = insert_tags(stripped, target, data.draw(alignments(stripped.text, target)))
    tags = [part for part in placed if isinstance(part, Tag)]
    assert Counter(tags) == Counter(part for part in inline if isinstance(part, Tag))
    assert without_spaces("".join(part for part in placed if isinstance(part, str))) == without_spaces(target)
    assert set(tag_pairs(inline)) <= set(tag_pairs(placed)) or has_unpaired_tags(inline)


def has_unpaired_tags(inline: Inline) -> bool:
    """Return True if a tag is unpaired; it may move anywhere and form a pair with another tag."""
    opens = sum(part.kind == "open" for part in inline if isinstance(part, Tag))
    closes = sum(part.kind == "close" for part in inline if isinstance(part, Tag))
    pairs = len(tag_pairs(inline))
    return opens != pairs or closes != pairs


@given(inline=inlines())
def test_tags_keep_their_positions_in_an_identical_translation(inline: Inline) -> None:
    stripped = strip_tags(inline)
    spans = word_spans(stripped.text)
    links = tuple((i, i) for i in range(len(spans)))
    restripped = strip_tags(
        insert_tags(stripped, stripped.text, WordAlignment(tuple(spans), tuple(spans), links))
    )
    assert [
        words_before(stripped.text, mark.position) for mark in stripped.marks if mark.tag.kind == "void"
    ] == [
        words_before(restripped.text, mark.position) for mark in restripped.marks if mark.tag.kind == "void"
    ] or has_tags_inside_words(inline)


def words_before(text: str, position: int) -> int:
    return sum(end <= position for _, end in word_spans(text))


def has_tags_inside_words(inline: Inline) -> bool:
    stripped = strip_tags(inline)
    return any(
        start < mark.position < end for start, end in word_spans(stripped.text) for mark in stripped.marks
    ) or has_unpaired_tags(inline)


def place_diagonally(inline: Inline) -> str:
    stripped = strip_tags(inline)
    target = " ".join(stripped.text.split())
    spans = word_spans(stripped.text), word_spans(target)
    links = tuple((i, i) for i in range(len(spans[0])))
    return raw_text(insert_tags(stripped, target, WordAlignment(tuple(spans[0]), tuple(spans[1]), links)))


BOLD, END_BOLD = open_tag("b"), close_tag("b")


@pytest.mark.parametrize(
    "inline",
    [
        ("A ", BOLD, "big", END_BOLD, " dog"), ("A", BOLD, " big ", END_BOLD, "dog"),
        ("A ", BOLD, " big ", END_BOLD, " dog, ", Tag("void", "<br/>"), " yes"),
        ("one", Tag("void", "<br/>"), "two"),
        (open_tag("p"), " Hi ", BOLD, open_tag("i"), "x", close_tag("i"), END_BOLD, "! ", close_tag("p")),
        ("a ", BOLD, END_BOLD, " c"), ("a", BOLD, " ", END_BOLD, "c"), ("a ", BOLD, "(", END_BOLD, "c)"),
        (BOLD, END_BOLD), (BOLD, "all of it.", END_BOLD, Tag("void", "<x/>")),
    ],
)  # fmt: skip
def test_spaces_around_tags_match_the_source(inline: Inline) -> None:
    assert place_diagonally(inline) == raw_text(inline)


def place_tags(inline: Inline, target: str, links: str) -> str:
    stripped = strip_tags(inline)
    pairs = tuple(
        (int(source_index), int(target_index))
        for source_index, target_index in (link.split("-") for link in links.split())
    )
    return raw_text(
        insert_tags(
            stripped,
            target,
            WordAlignment(tuple(word_spans(stripped.text)), tuple(word_spans(target)), pairs),
        )
    )


def test_tags_move_with_their_reordered_words() -> None:
    inline = ("I ", BOLD, "want", END_BOLD, " to ", open_tag("i"), "buy a car", close_tag("i"), ".")
    assert place_tags(inline, "Ich möchte ein Auto kaufen.", "0-0 1-1 3-4 4-2 5-3 6-5") == (
        "Ich <b>möchte</b> <i>ein Auto kaufen</i>."
    )


def test_tags_around_discontinuous_words_form_one_pair() -> None:
    inline = (BOLD, "does not go", END_BOLD, " home today")
    longer = (BOLD, "she does not go", END_BOLD, " home today")
    links = "0-0 1-1 2-3 2-4 3-1 4-5 5-2"
    assert (
        place_tags(longer, "sie geht heute gar nicht heim", links) == "<b>sie geht heute gar nicht</b> heim"
    )
    assert (
        place_tags(inline, "geht heute nicht heim", "0-0 1-2 2-0 3-3 4-1") == "<b>geht</b> heute nicht heim"
    )
    assert place_tags(inline, "geht heute Abend doch nicht", "0-0 1-4 2-0 3-1 4-2 4-3").startswith(
        "<b>geht</b>"
    )


def test_tag_pair_inside_a_word_is_extended_to_the_whole_word() -> None:
    assert (
        place_tags(("un", BOLD, "believ", END_BOLD, "able!"), "unglaublich!", "0-0 1-1")
        == "<b>unglaublich</b>!"
    )


def test_adjacent_tag_pairs_do_not_cross() -> None:
    inline = (BOLD, "foot", END_BOLD, " ", open_tag("i"), "ball", close_tag("i"))
    assert place_tags(inline, "Fußball", "0-0 1-0") == "<b>Fußball</b><i></i>"


def test_tags_around_the_whole_text_enclose_the_whole_translation() -> None:
    assert place_tags((BOLD, "Hello!", END_BOLD), "¡Hola!", "0-1") == "<b>¡Hola!</b>"


def test_tags_keep_their_word_positions_without_an_alignment() -> None:
    stripped = strip_tags(("a ", BOLD, "b", END_BOLD, " c"))
    assert raw_text(insert_tags(stripped, "x y z", None)) == "x <b>y</b> z"


def test_untranslatable_elements_follow_neighbouring_words() -> None:
    inline = ("Run ", Tag("kept", "<code>ls</code>", "ls"), " now")
    assert strip_tags(inline).text == "Run  now"
    assert plain_text(inline) == "Run ls now"
    assert place_tags(inline, "Jetzt starten", "0-1 1-0") == "Jetzt starten <code>ls</code>"


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["side by side", "nested", "stray", "words"])
def test_ten_thousand_tags_are_inserted_within_seconds(shape: str) -> None:
    count = 5000
    if shape == "side by side":
        inline: tuple[str | Tag, ...] = tuple(
            part for _ in range(count) for part in (BOLD, "word ", END_BOLD)
        )
    elif shape == "nested":
        half = [part for _ in range(count) for part in (BOLD, "a ")]
        inline = (*half, *(part for _ in range(count) for part in (END_BOLD, " b")))
    elif shape == "stray":
        inline = tuple(part for _ in range(count) for part in (END_BOLD, "word ", BOLD, " x"))
    else:
        inline = (*[BOLD] * count, "two words", *[END_BOLD] * count)
    stripped = strip_tags(inline)
    spans = word_spans(stripped.text)
    links = tuple((i, i) for i in range(len(spans)))
    started = time.process_time()
    placed = insert_tags(stripped, stripped.text, WordAlignment(tuple(spans), tuple(spans), links))
    assert time.process_time() - started < 20
    assert sum(isinstance(part, Tag) for part in placed) == 2 * count


def test_tags_are_placed_by_the_most_probable_links() -> None:
    source, target = "the red dog", "der rote Hund"
    spans = tuple(word_spans(source)), tuple(word_spans(target))
    likely = ((0, 0, 0.9), (0, 2, 0.3), (1, 1, 0.6), (2, 1, 0.2), (2, 2, 0.4))
    alignment = WordAlignment(*spans, ((0, 0), (1, 1)), likely)  # nothing is linked to the dog for sure
    for inline, expected in (
        (("the red ", BOLD, "dog", END_BOLD), "der rote <b>Hund</b>"),
        (("the ", BOLD, "red dog", END_BOLD), "der <b>rote Hund</b>"),
        ((BOLD, "the", END_BOLD, " red dog"), "<b>der</b> rote Hund"),
    ):
        assert raw_text(insert_tags(strip_tags(inline), target, alignment)) == expected


def linked(source: str, target: str, *links: tuple[int, int]) -> WordAlignment:
    return WordAlignment(tuple(word_spans(source)), tuple(word_spans(target)), links)


def inserted(html: str, target: str, *links: tuple[int, int]) -> str:
    [source] = read_fragment(html, "html").inlines
    stripped = strip_tags(source)
    return raw_text(insert_tags(stripped, target, linked(stripped.text, target, *links)))


@pytest.mark.parametrize(
    ("html", "target", "links", "expected"),
    [
        ("Water is H<sub>2</sub>O.", "Eau : H2O.", [(0, 0), (2, 2)], "Eau : H<sub>2</sub>O."),
        ("Gas CO<sub>2</sub> is", "CO2 ist Gas", [(0, 2), (1, 0)], "CO<sub>2</sub> ist Gas"),
        ("CO<sub>2</sub> taxes", "CO2-Steuer", [(0, 0), (1, 0)], "CO<sub>2</sub>-Steuer"),
        ("CO<sub>2</sub>-free", "sans CO2", [(0, 0)], "sans CO<sub>2</sub>"),
        ("a<i>b</i>c a<u>b</u>c", "x abc abc", [(0, 1), (1, 2)], "x a<i>b</i>c a<u>b</u>c"),
        ("<b>x<sup>2</sup></b> grows", "croît x2", [(0, 1), (1, 0)], "croît <b>x<sup>2</sup></b>"),
        ("is happy<sup>1</sup>.", "est heureux1.", [(0, 0), (1, 1)], "est heureux<sup>1</sup>."),
        ("the 21<sup>st</sup> one", "der 21. da", [(0, 0), (1, 1), (2, 3)], "der 21<sup></sup>. da"),
        ("<b>W</b>hen it", "Quand il", [(0, 0), (1, 1)], "<b>Q</b>uand il"),
        ("very <b>un</b>happy", "très triste", [(0, 0), (1, 1)], "très <b>triste</b>"),
    ],
)
def test_tags_inside_words_enclose_the_corresponding_part_of_the_translation(html, target, links, expected):
    assert inserted(html, target, *links) == expected


@pytest.mark.parametrize(
    ("before", "after", "target", "expected"),
    [
        ("A ", "\n", "B\n", "B 0\n"), ("A ", "\nA", "B\nB", "B 0\nB"), ("A\n", "\n", "B\n\n", "B\n0\n"),
        ("A\n", " A", "B\nB", "B\n0 B"), ("A\r\n", "\r\nA", "B\r\n\r\nB", "B\r\n0\r\nB"),
    ],
)  # fmt: skip
def test_line_breaks_next_to_an_omitted_element_occur_once(before, after, target, expected) -> None:
    stripped = strip_tags((before, Tag("kept", "0", "0"), after))
    assert raw_text(insert_tags(stripped, target, None)) == expected


@pytest.mark.slow
def test_tags_inside_many_words_take_linear_time() -> None:
    html = " ".join(["H<sub>2</sub>O"] * 10_000)
    text = "H2O " * 9_999 + "H2O"
    start = time.process_time()
    assert inserted(html, text) == html
    assert time.process_time() - start < 10


@given(st.data())
def test_tags_around_a_phrase_with_a_fixed_translation_enclose_that_translation(data):
    """A glossary term and its translation, for example, are linked only with each other."""
    lengths = [data.draw(st.integers(1, 3)) for _ in range(2)]
    sides = [
        [f"{name}{number}" for number in range(length)] for name, length in zip("st", lengths, strict=True)
    ]
    texts = [["a", *side, "b"] for side in sides]
    source, target = (" ".join(text) for text in texts)
    indices = st.tuples(st.integers(0, lengths[0] + 1), st.integers(0, lengths[1] + 1))
    outer = {(0, 0), (lengths[0] + 1, lengths[1] + 1)}  # the words around the pair
    links = tuple(sorted(data.draw(st.sets(indices)) | outer))
    alignment = WordAlignment(tuple(word_spans(source)), tuple(word_spans(target)), links)
    stripped = strip_tags(("a ", open_tag("b"), " ".join(sides[0]), close_tag("b"), " b"))
    placed = insert_tags(stripped, target, alignment, [(" ".join(sides[0]), " ".join(sides[1]).upper())])
    assert raw_text(placed) == f"a <b>{' '.join(sides[1])}</b> b"


def test_plain_text_of_inline_content_omits_tags() -> None:
    code = Tag("kept", "<code>a &amp; b</code>", "a & b")
    inline = ("Run ", Tag("open", "<b>"), code, Tag("close", "</b>"), Tag("void", "<br/>"), " now")
    assert plain_text(inline) == "Run a & b now"


def test_word_alignment_is_formatted_as_index_pairs_and_json() -> None:
    alignment = WordAlignment(((0, 1), (2, 5)), ((0, 3), (4, 6)), ((0, 1), (1, 0)))
    assert str(alignment) == "0-1 1-0"
    assert (
        alignment.to_json()
        == '{"source": [[0, 1], [2, 5]], "target": [[0, 3], [4, 6]], "links": [[0, 1], [1, 0]]}'
    )

"""Tags come back: each once, well nested, around the words that mean what they stood around."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.alignment.words import word_spans
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.insert_tags import insert_tags
from uwaga.markup.strip_tags import strip_tags
from uwaga.results.translation import WordAlignment

KINDS = ("open", "close", "void", "kept")
WORDS = st.sampled_from(("a", "Haus", "dog,", "x.", "don't", "狗", "über", "(", "7", "हिन्दी"))
BLANKS = st.sampled_from(("", " ", " ", "  "))


def opened(name: str) -> Tag:
    return Tag("open", f"<{name}>")


def closed(name: str) -> Tag:
    return Tag("close", f"</{name}>")


def shown(inline: Inline) -> str:
    return "".join(part if isinstance(part, str) else part.raw for part in inline)


def blanks_aside(text: str) -> str:
    return "".join(text.split())


@st.composite
def inlines(draw: st.DrawFn) -> Inline:
    """Any tags between any words, also such as have no partner."""
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
    """Of words that may be others than ours, with any links or none."""
    if draw(st.integers(0, 9)) == 0:
        return None
    spans = [word_spans(text) if draw(st.booleans()) else spaced(text) for text in (source, target)]
    pairs = [(one, other) for one in range(len(spans[0])) for other in range(len(spans[1]))]
    links = draw(st.sets(st.sampled_from(pairs), max_size=20)) if pairs else set()
    return WordAlignment(tuple(spans[0]), tuple(spans[1]), tuple(sorted(links)))


def spaced(text: str) -> tuple[tuple[int, int], ...]:
    places, end = [], 0
    for word in text.split():
        start = text.index(word, end)
        end = start + len(word)
        places.append((start, end))
    return tuple(places)


def pairs_of(inline: Inline) -> list[tuple[Tag, Tag]]:
    """Every pair by the rule that a close ends the nearest open."""
    waiting, found = [], []
    for part in inline:
        if isinstance(part, Tag) and part.kind == "open":
            waiting.append(part)
        elif isinstance(part, Tag) and part.kind == "close" and waiting:
            found.append((waiting.pop(), part))
    return found


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_any_alignment_keeps_every_tag_and_the_text(data: st.DataObject) -> None:
    inline = data.draw(inlines())
    stripped = strip_tags(inline)
    target = " ".join(data.draw(st.lists(WORDS, max_size=10)))
    made = insert_tags(stripped, target, data.draw(alignments(stripped.text, target)))
    tags = [part for part in made if isinstance(part, Tag)]
    assert Counter(tags) == Counter(part for part in inline if isinstance(part, Tag))
    assert blanks_aside("".join(part for part in made if isinstance(part, str))) == blanks_aside(target)
    assert set(pairs_of(inline)) <= set(pairs_of(made)) or stray(inline)


def stray(inline: Inline) -> bool:
    """Whether a tag has no partner: such move freely, and others may then pair with them."""
    opens = sum(part.kind == "open" for part in inline if isinstance(part, Tag))
    closes = sum(part.kind == "close" for part in inline if isinstance(part, Tag))
    pairs = len(pairs_of(inline))
    return opens != pairs or closes != pairs


@settings(max_examples=100, deadline=None)
@given(inline=inlines())
def test_a_text_that_stays_as_it_is_keeps_its_tags_where_they_are(inline: Inline) -> None:
    stripped = strip_tags(inline)
    spans = word_spans(stripped.text)
    links = tuple((at, at) for at in range(len(spans)))
    made = strip_tags(insert_tags(stripped, stripped.text, WordAlignment(tuple(spans), tuple(spans), links)))
    assert [words_before(stripped.text, mark.at) for mark in stripped.marks if mark.tag.kind == "void"] == [
        words_before(made.text, mark.at) for mark in made.marks if mark.tag.kind == "void"
    ] or inside_words(inline)


def words_before(text: str, at: int) -> int:
    return sum(end <= at for _, end in word_spans(text))


def inside_words(inline: Inline) -> bool:
    stripped = strip_tags(inline)
    return any(
        start < mark.at < end for start, end in word_spans(stripped.text) for mark in stripped.marks
    ) or stray(inline)


def diagonal(inline: Inline) -> str:
    stripped = strip_tags(inline)
    target = " ".join(stripped.text.split())
    spans = word_spans(stripped.text), word_spans(target)
    links = tuple((at, at) for at in range(len(spans[0])))
    return shown(insert_tags(stripped, target, WordAlignment(tuple(spans[0]), tuple(spans[1]), links)))


B, E = opened("b"), closed("b")


@pytest.mark.parametrize(
    "inline",
    [
        ("A ", B, "big", E, " dog"),
        ("A", B, " big ", E, "dog"),
        ("A ", B, " big ", E, " dog, ", Tag("void", "<br/>"), " yes"),
        ("one", Tag("void", "<br/>"), "two"),
        (opened("p"), " Hi ", B, opened("i"), "x", closed("i"), E, "! ", closed("p")),
        ("a ", B, E, " c"),
        ("a", B, " ", E, "c"),
        ("a ", B, "(", E, "c)"),
        (B, E),
        (B, "all of it.", E, Tag("void", "<x/>")),
    ],
)
def test_spaces_around_tags_are_the_sources(inline: Inline) -> None:
    assert diagonal(inline) == shown(inline)


def aligned(inline: Inline, target: str, links: str) -> str:
    stripped = strip_tags(inline)
    pairs = tuple((int(one), int(other)) for one, other in (link.split("-") for link in links.split()))
    return shown(
        insert_tags(
            stripped,
            target,
            WordAlignment(tuple(word_spans(stripped.text)), tuple(word_spans(target)), pairs),
        )
    )


def test_words_change_places() -> None:
    inline = ("I ", B, "want", E, " to ", opened("i"), "buy a car", closed("i"), ".")
    assert aligned(inline, "Ich möchte ein Auto kaufen.", "0-0 1-1 3-4 4-2 5-3 6-5") == (
        "Ich <b>möchte</b> <i>ein Auto kaufen</i>."
    )


def test_a_pair_covers_what_lies_between_its_words_or_leaves_the_smaller_part_out() -> None:
    inline = (B, "does not go", E, " home today")
    longer = (B, "she does not go", E, " home today")
    links = "0-0 1-1 2-3 2-4 3-1 4-5 5-2"
    assert aligned(longer, "sie geht heute gar nicht heim", links) == "<b>sie geht heute gar nicht</b> heim"
    assert aligned(inline, "geht heute nicht heim", "0-0 1-2 2-0 3-3 4-1") == "<b>geht</b> heute nicht heim"
    assert aligned(inline, "geht heute Abend doch nicht", "0-0 1-4 2-0 3-1 4-2 4-3").startswith("<b>geht</b>")


def test_a_tag_inside_a_word_takes_the_whole_word() -> None:
    assert aligned(("un", B, "believ", E, "able!"), "unglaublich!", "0-0 1-1") == "<b>unglaublich</b>!"


def test_pairs_side_by_side_never_cross() -> None:
    inline = (B, "foot", E, " ", opened("i"), "ball", closed("i"))
    assert aligned(inline, "Fußball", "0-0 1-0") == "<b>Fußball</b><i></i>"


def test_a_pair_around_everything_stays_there() -> None:
    assert aligned((B, "Hello!", E), "¡Hola!", "0-1") == "<b>¡Hola!</b>"


def test_without_an_alignment_the_order_decides() -> None:
    stripped = strip_tags(("a ", B, "b", E, " c"))
    assert shown(insert_tags(stripped, "x y z", None)) == "x <b>y</b> z"


def test_kept_pieces_move_with_their_neighbours() -> None:
    inline = ("Run ", Tag("kept", "<code>ls</code>", "ls"), " now")
    assert strip_tags(inline).text == "Run  now"
    assert plain_text(inline) == "Run ls now"
    assert aligned(inline, "Jetzt starten", "0-1 1-0") == "Jetzt starten <code>ls</code>"


@pytest.mark.parametrize("shape", ["side by side", "nested", "stray", "words"])
def test_ten_thousand_tags_are_placed_in_a_moment(shape: str) -> None:
    count = 5000
    if shape == "side by side":
        inline: tuple[str | Tag, ...] = tuple(part for _ in range(count) for part in (B, "word ", E))
    elif shape == "nested":
        half = [part for _ in range(count) for part in (B, "a ")]
        inline = (*half, *(part for _ in range(count) for part in (E, " b")))
    elif shape == "stray":
        inline = tuple(part for _ in range(count) for part in (E, "word ", B, " x"))
    else:
        inline = (*[B] * count, "two words", *[E] * count)
    stripped = strip_tags(inline)
    spans = word_spans(stripped.text)
    links = tuple((at, at) for at in range(len(spans)))
    started = time.process_time()
    made = insert_tags(stripped, stripped.text, WordAlignment(tuple(spans), tuple(spans), links))
    assert time.process_time() - started < 20
    assert sum(isinstance(part, Tag) for part in made) == 2 * count


def test_a_pair_goes_by_how_likely_words_are_linked() -> None:
    source, target = "the red dog", "der rote Hund"
    spans = tuple(word_spans(source)), tuple(word_spans(target))
    likely = ((0, 0, 0.9), (0, 2, 0.3), (1, 1, 0.6), (2, 1, 0.2), (2, 2, 0.4))
    found = WordAlignment(*spans, ((0, 0), (1, 1)), likely)  # nothing is linked to the dog for sure
    for inline, wanted in (
        (("the red ", B, "dog", E), "der rote <b>Hund</b>"),
        (("the ", B, "red dog", E), "der <b>rote Hund</b>"),
        ((B, "the", E, " red dog"), "<b>der</b> rote Hund"),
    ):
        assert shown(insert_tags(strip_tags(inline), target, found)) == wanted

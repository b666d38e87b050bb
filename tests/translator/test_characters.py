"""Characters unknown to a model are kept in the translation, or a warning names them."""

import re
import unicodedata
from collections import Counter
from itertools import combinations, groupby
from types import SimpleNamespace

import pytest
import tiny_models as tiny
from hypothesis import given
from hypothesis import strategies as st

from uwaga.markup.inline import Tag, plain_text
from uwaga.markup.typography import ASCII_EQUIVALENTS, apply_edits, ascii_edits
from uwaga.results.translation import Translation
from uwaga.search import search
from uwaga.tokenizers.subwords import BYTE_PIECES, byte_tokens
from uwaga.tokenizers.text import clusters
from uwaga.translator.layers.characters import Characters
from uwaga.translator.layers.differences import find_lost_signs, with_difference_warnings
from uwaga.translator.split import KnownCharacters
from uwaga.translator.text import Text

SIGNS = "₽→≥≤×±§•★♪½¼²©™日本Łéñ😀👋🏽"


class LossyModel:
    """A model that returns its input in capitals without some characters."""

    def __init__(self, lost: str) -> None:
        self._lost = lost

    def translate(self, texts):
        for text in texts:
            words = "".join(part if isinstance(part, str) else part.text for part in text.content)
            translation = "".join(character for character in words if character not in self._lost).upper()
            text.translation = Translation(translation, 0.0, (), (), source=words)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("I love it 😀.", "😀"), ("★★★★★ Great product!", "★★★★★"), ("It costs ₽20.", "₽20"),
        ("It is −5 °C today.", "−5 °C"), ("Москва is a city.", "Москва"), ("It is −5 degrees.", "−5"),
        ("½ cup of sugar", "½"), ("• First item", "•"), ("© 2026 Acme™", "© 2026 Acme™"),
        ("Family: 👨‍👩‍👧‍👦 and 👍🏽!", "👨‍👩‍👧‍👦"), ("See § 5.", "§"),
        ("The word नमस्ते is old.", "नमस्ते"), ("Click File › Open.", "›"), ("Wait… what?", "…"),
        ("Press 1️⃣ to start.", "1️⃣"), ("I am happy ◕_◕ today.", "◕_◕"), ("He is 5′10″ tall.", "5′10″"),
        ("Hello \u2068Tom\u2069, how are you?", "\u2068Tom\u2069"),
    ],
)  # fmt: skip
def test_special_characters_survive_translation(translator, source, expected):
    for options in ({}, {"format": "html"}, {"format": "markdown"}, {"beam": 3, "nbest": 2}):
        translation = translator.translate(source, **options)
        assert expected in translation.text, (options, translation.text)
        assert not [
            warning for warning in translation.warnings if "symbol" in warning or "missing" in warning
        ]
        assert translation.source == source


def test_quotation_marks_follow_target_language_conventions(translator):
    text = translator.translate("“The house is old,” said the man. “It’s very old.”").text
    assert len(re.findall("„", text)) == len(re.findall("“", text)) == 2, text
    assert "”" not in text and '"' not in text


@pytest.mark.parametrize("space", "\u00a0\u202f")
def test_no_break_spaces_stay_next_to_their_words(translator, space):
    texts = ("See Fig. 3 and page 5.", "Mr. Smith sees 20 dogs.", "Peter is here.")
    for text in texts:
        plain = translator.translate(text).text
        marked = re.sub(r" (?=\d|Smith)|(?<=20) ", space, text)
        translation = translator.translate(marked)
        assert translation.source == marked and not translation.warnings
        assert translation.text.replace(space, " ") == plain
        assert translation.text.count(space) == marked.count(space)


@given(st.text(SIGNS + " abc.", max_size=30))
def test_no_special_character_is_lost_or_duplicated(translator, text):
    translation = translator.translate(text)
    signs = Counter(character for character in text if character in SIGNS)
    assert Counter(character for character in translation.text if character in SIGNS) == signs


def test_alignment_refers_to_the_original_text(translator):
    source = "“The man…” reads 😀 a book — slowly."
    translation = translator.translate(source, alignment=True)
    assert translation.alignment is not None
    for text, spans in (
        (source, translation.alignment.source),
        (translation.text, translation.alignment.target),
    ):
        words = [text[start:end] for start, end in spans]
        assert all(word and not any(map(str.isspace, word)) for word in words), words
    words = [source[start:end] for start, end in translation.alignment.source]
    assert {"man", "reads", "book"} <= set(words)


def test_special_characters_are_escaped_in_html(translator):
    text = translator.translate("<p>The value a &lt; b is small.</p>", format="html").text
    assert "a &lt; b" in text


def test_characters_missing_from_the_translation_are_reported():
    tokeniser = tiny.tokeniser()
    layer = Characters(LossyModel("★"), KnownCharacters(tokeniser), ("en", "de"))
    text = Text(("a ★ b",), "text 1")
    layer.translate([text])
    assert text.result.warnings == ("characters that the model does not know are missing: ★",)


class CopyingModel:
    """A model that copies untranslatable parts and all pieces known to its tokeniser."""

    def __init__(self, tokeniser) -> None:
        self._tokeniser = tokeniser

    def translate(self, texts):
        for text in texts:
            inline = tuple(self._copied(part) if isinstance(part, str) else part for part in text.content)
            text.inlines = [inline]
            text.translation = Translation(plain_text(inline), 0.0, (), (), source=plain_text(text.content))

    def _copied(self, text):
        pieces = self._tokeniser.pieces(self._tokeniser.encode(text))
        return "".join(piece for piece in pieces if piece not in BYTE_PIECES).replace("\u2581", " ")


def unreported_losses(translation: Translation) -> list[str]:
    """Return the rare characters of a source that neither its translation nor a warning contains."""
    source, target = (unicodedata.normalize("NFC", text) for text in (translation.source, translation.text))
    missing = Counter(clusters(source)) - Counter(clusters(target))
    warnings = " ".join(translation.warnings)
    return [
        cluster
        for cluster in missing
        if not cluster.isascii()
        and not cluster.isspace()
        and cluster not in ASCII_EQUIVALENTS
        and cluster not in warnings
        and not all(f"U+{ord(character):04X}" in warnings for character in cluster)
    ]


MARKS = st.text("\u0301\u0335\u0336\u0489\u20d7\ufe0e\ufe0f\u20e3", min_size=1, max_size=4)
RARE_WORDS = """
    1️⃣ *️⃣ H̵e̷l̶l̷o̵ ◕_◕ (╯°□°)╯ ★“★ ◕—◕ ′ ″ 6′2″ f′ it′s ‼ ‥ ︵ 🏴\U000e0067\U000e007f 👩🏽\u200d🚀 🇵🇱 ❤︎ ♥ Ⅱ xⁿ ┻━┻
    ⠓⠊ a\u00adb \u2068Ana\u2069 \u200e \u202e \x07 \u0378\U000e0fff \ue000 ▁ 𝗮𝗯 ℝ ｈｉ！ ＄ ﾊ Ⓐ①
    за\u0301мок \ufffd
""".split()  # noqa: SIM905
RARE_TEXTS = st.one_of(
    st.builds(str.__add__, st.sampled_from("1#aZé.“😀 "), MARKS),
    st.sampled_from(RARE_WORDS),
    st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp"]), max_size=4).filter(
        lambda text: not any("<compat>" in unicodedata.decomposition(character) for character in text)
    ),
)


@given(st.lists(st.one_of(RARE_TEXTS, st.sampled_from(["dog", " ", " the ", ", "])), max_size=8))
def test_rare_characters_copied_by_the_model_are_kept_or_reported(translator, parts):
    model = translator.model
    text = Text((f"The {''.join(parts)} sleeps.",), "text 1")
    Characters(CopyingModel(model.source), model.characters, ("en", "de")).translate([text])
    assert not unreported_losses(text.result), (ascii(text.content), text.result)


def test_rare_characters_are_kept_or_reported_by_the_bundled_model(translator):
    texts = [text for word in RARE_WORDS for text in (f"The {word} dog sleeps.", f"Tom saw the dog{word}")]
    for translation in translator.translate(texts):
        assert not unreported_losses(translation), (ascii(translation.source), translation)


def test_missing_quotation_marks_are_restored_around_their_words():
    class TagPreservingModel(LossyModel):
        def translate(self, texts):
            super().translate(texts)
            for text in texts:
                if any(isinstance(part, Tag) for part in text.content):
                    text.inlines = [
                        tuple(part.upper() if isinstance(part, str) else part for part in text.content)
                    ]

    characters = set("“”").intersection
    known = SimpleNamespace(find_unknown=characters, find_unfamiliar=characters)
    text = Text(("he said “no” to it",), "text 1")
    Characters(TagPreservingModel('"'), known, ("en", "de")).translate([text])
    assert text.result.text == "HE SAID „NO“ TO IT"


def test_texts_with_only_known_characters_reach_the_model_unchanged():
    class RecordingModel:
        def translate(self, texts):
            self.texts = list(texts)

    recording, text = RecordingModel(), Text(("The dog sleeps.",), "text 1")
    Characters(recording, KnownCharacters(tiny.tokeniser()), ("en", "de")).translate([text])
    assert recording.texts == [text]


def test_characters_missing_from_the_vocabulary_are_unknown():
    tokeniser = tiny.tokeniser()
    characters = KnownCharacters(tokeniser)
    known = set("the dog")
    assert not characters.find_unknown("the dog")
    assert characters.find_unknown("the 😀 dog") == {"😀"}
    assert characters.find_unknown("½ …") >= {"½"}
    assert not characters.find_unknown("\u200d\ufe0f\u0301 \n\t") & known
    decomposed = unicodedata.normalize("NFD", "ä")
    assert not characters.find_unknown("ä") and not characters.find_unknown(decomposed)
    assert characters.find_unknown("the a\u0335 1\ufe0f\u20e3") == {"a\u0335", "1\ufe0f\u20e3"}


def test_zero_width_non_joiners_are_familiar_only_in_languages_that_use_them():
    tokeniser = tiny.tokeniser()
    for language, is_unfamiliar in (("en", True), ("fa", False), ("hi", False)):
        characters = KnownCharacters(tokeniser, language=language)
        assert bool(characters.find_unfamiliar("a\u200cb")) == is_unfamiliar


def test_accented_letters_are_composed_and_optional_marks_removed():
    known = "замок Café"
    tokeniser = SimpleNamespace(
        symbols=SimpleNamespace(unknown=0),
        encode=lambda text: [ord(character) if character in known else 0 for character in text],
        pieces=lambda ids: [chr(token) for token in ids],
    )
    text, characters = "за\u0301мок Cafe\u0301 a\u0301", KnownCharacters(tokeniser, language="ru")
    edits = ascii_edits(text, characters.find_unknown)
    assert plain_text(apply_edits((text,), edits)) == "замок Café a\u0301"
    assert characters.find_unknown(text) == {"а\u0301", "a\u0301"}


def test_soft_hyphens_are_removed_from_words(translator):
    soft, plain = translator.translate(["The do\u00adg sleeps.", "The dog sleeps."])
    assert soft.text == plain.text
    assert soft.warnings == ("characters that the model does not know are missing: U+00AD",)


def test_incomplete_byte_sequences_are_omitted(translator):
    """Arbitrary tokens, including byte tokens, are decoded."""
    target = translator.target
    bytes_ = [target.encode("é")[-1], *target.encode("😀")[-4:]]
    from uwaga.translator.detokenise import decode

    assert decode([*bytes_[:1], *target.encode("Haus")], target).strip() == "Haus"
    assert decode(target.encode("😀"), target).strip() == "😀"
    assert Counter(decode(bytes_, target))["\ufffd"] == 0


def has_whole_characters(pieces) -> bool:
    """Return True if every sequence of byte pieces encodes whole characters."""
    for is_byte, run in groupby(pieces, lambda piece: re.fullmatch("<0x..>", piece) is not None):
        if is_byte:
            try:
                bytes(int(piece[3:5], 16) for piece in run).decode()
            except UnicodeDecodeError:
                return False
    return True


@pytest.mark.parametrize(
    "options", [{"beam": 1}, {"beam": 4, "nbest": 4}, {"sample": True, "nbest": 3, "seed": 5}]
)
def test_byte_tokens_of_outputs_form_whole_characters(translator, options, monkeypatch):
    texts = [f"The {''.join(signs)} car" for signs in combinations("¼ń日łĞő€", 2)]
    searched = []

    def recording_search(decoder, sentences, options, **arguments):
        lists = search(decoder, sentences, options, **arguments)
        searched.append([hypothesis.tokens for hypotheses in lists for hypothesis in hypotheses])
        return lists

    monkeypatch.setattr("uwaga.translator.layers.search.search", recording_search)
    translations = translator.translate(texts, placeholders=False, **options)
    for translation in translations:
        assert all(has_whole_characters(result.tokens) for result in (translation, *translation.alternatives))
        if options.get("beam") == 1:
            assert "".join(translator.stream(translation.source, placeholders=False)) == translation.text
    pieces = translator.model.target.pieces
    assert any(not has_whole_characters(pieces(tokens)) for tokens in searched[0])  # else nothing is tested


def test_only_models_with_byte_pieces_have_byte_tokens(translator):
    byte_pieces = {f"<0x{byte:02X}>" for byte in range(0x80, 0x100)}
    model = translator.model
    assert set(model.target.pieces(model.byte_tokens)) == byte_pieces
    unknown = SimpleNamespace(encode=lambda text: [1], pieces=lambda ids: ["<unk>"])
    assert byte_tokens(unknown) == range(0)


@pytest.mark.parametrize(
    ("source", "target", "lost"),
    [
        ("It is 5° warm.", "Es ist 5 warm.", ["°"]),
        ("It is 5° warm.", "Es ist 5 Grad warm.", []),
        ("It costs €5 or £3.", "Es kostet 5 Euro oder 3.", ["£"]),
        ("★★ Good → bad", "★ Gut → schlecht", ["★"]),
        ("Good.", "Gut 👍.", []),
    ],
)
def test_special_signs_missing_from_the_translation_are_reported(source, target, lost):
    assert find_lost_signs(source, target) == lost
    translation = with_difference_warnings(Translation(target, 0.0, (), (), source=source), "de")
    assert any("signs" in warning for warning in translation.warnings) == bool(lost)

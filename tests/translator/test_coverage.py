"""Coverage: words and numbers missing from a translation."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from growth import growth
from hypothesis import given
from hypothesis import strategies as st

import uwaga
from uwaga.alignment.piece_alignment import PieceAlignment
from uwaga.errors import SettingsError
from uwaga.languages.function_words import function_words
from uwaga.languages.numbers import differing_numbers
from uwaga.results.coverage import combine_coverage
from uwaga.results.translation import Coverage, Hypothesis, WordAlignment
from uwaga.translator.additions import find_added_brackets, find_added_words
from uwaga.translator.checks import UNFAMILIAR_TEXT
from uwaga.translator.layers import coverage
from uwaga.translator.layers.coverage import evidence_of_omission, improbable_source_starts, min_evidence
from uwaga.translator.text import Passage, Sentence

MEETING = "The meeting starts at 9:30 on Monday."


@pytest.mark.parametrize(
    ("source", "target", "missing", "added"),
    [
        ("at 9:30", "um 9.30 Uhr", (), ()), ("at 9:30", "às 9h30", (), ()),
        ("1,000 and 10 000 people", "1.000 e 10.000 pessoas", (), ()),
        ("24,000 meteorites", "24 mil meteoritos", (), ()), ("the 19th century", "o século XIX", (), ()),
        ("3 dogs", "três cães", (), ()), ("3 dogs", "4 cães", ("3",), ("4",)),
        ("3 dogs, 3 men", "3 dogs, men 4", ("3",), ("4",)), ("12 or 12", "12", (), ()),
        ("13 or 13", "13", ("13",), ()), ("13", "13 or 13", (), ("13",)),
        ("at 9:30, 30 people", "um 9:30 Uhr", ("30",), ()), ("9:30 and 9", "9:30 and 8", ("9",), ("8",)),
        ("in 1998", "em 1989", ("1998",), ("1989",)), ("$11,000", "US$ 1,000", ("11,000",), ("1,000",)),
        ("٢٥ رجلا", "25 men", (), ()), ("at 9:30", "at nine", ("9:30",), ()),
        ("no number", "keine Zahl 42", (), ("42",)),
        ("1,234,567 euros", "1.234,567 Euro", ("1,234,567",), ("1.234,567",)),
        ("1,234,567.89 and 1,234,567", "1.234.567,89 und 1234567", (), ()),
        ("1234567.89", "1.234.567,89", (), ()), ("12,345,000", "12,345 Millionen", (), ()),
        ("1,234.567", "1.234,567", (), ()),
        ("1,000,000 people", "1.000 Menschen", ("1,000,000",), ("1.000",)),
        ("1,000 people", "1.000.000 Menschen", ("1,000",), ("1.000.000",)),
        ("1,500 km", "1,5 km", ("1,500",), ("1,5",)), ("24 people", "24.000 Menschen", ("24",), ("24.000",)),
        ("25 people", "25 000 personnes", ("25",), ("25 000",)),
        ("20 million people", "20 Menschen", ("20",), ("20",)),
        ("20 million people", "20.000 Menschen", ("20",), ("20.000",)),
        ("20 million people", "20 Milliarden Menschen", ("20",), ("20",)),
        ("5 million people", "5 Milliarden Menschen", ("5",), ("5",)),
        ("5 million people", "fünf Millionen Menschen", (), ()),
        ("5 million, 1.5 million", "5.000.000, 1,5 Mio.", (), ()),
        ("one hundred million people", "100 Millionen Menschen", (), ()),
        ("100 million people", "cem milhões de pessoas", (), ()), ("3 million people", "数百万人", (), ()),
        ("100 million of a family", "100 Familien", ("100",), ("100",)),
        ("one hundred thousand people", "100 Millionen Menschen", (), ("100",)),
        ("20 billion, $5bn", "20 mil milhões, 5 Milliarden $", (), ()), ("300,000 people", "30万人", (), ()),
        ("1,00,000 rupees", "1 lakh", (), ()), ("$20.00, 0.125, $5m", "20 $, 0,125, 5 Mio. $", (), ()),
        ("on 12.05.1998", "on 12 May 1998", (), ()), ("10'000, 25 300", "10 000, 25.300", (), ()),
        ("1990 miles, 30 tickets", "1990 milhas, 30 bilhetes", (), ()),
        ("at 2:00 p.m. or 2:15 pm", "um 14 oder 14:15 Uhr", (), ()), ("um 14:15 Uhr", "at 2:15 PM", (), ()),
        ("12:30 a. m., 12:45 pm", "0:30 und 12:45 Uhr", (), ()),
        ("at 2:15 pm", "um 2:15 Uhr am Nachmittag", (), ()),
        ("at 2:15 pm", "um 13:15 Uhr", ("2:15",), ("13:15",)), ("at 3 pm", "um 16 Uhr", ("3",), ("16",)),
        ("at 7 pm", "um 8 Uhr abends", ("7",), ("8",)), ("13:15 pm", "1:15", (), ()),
        ("um 15 Uhr", "at 3 o'clock", (), ()), ("in the 1980s", "in den 80er Jahren", (), ()),
        ("1990-95", "1990 bis 1995", (), ()), ("in the 1700s", "im 18. Jahrhundert", (), ()),
        ("5 m²", "5 m2", (), ()),
    ],
)  # fmt: skip
def test_numbers_are_compared_by_value(source, target, missing, added):
    assert differing_numbers(source, target) == (missing, added)


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [
        ("eighty people", "achtzig Leute", ()), ("Eighty people", "acht Leute", ("Eighty",)),
        ("twelve people", "zwanzig Leute", ("twelve",)), ("eighty people", "8 Leute", ("eighty",)),
        ("eighty people", "80 Leute", ()), ("I'm eighty years old.", "Ich bin acht Jahre alt.", ("eighty",)),
        ("thirty feet", "9 m", ()), ("five to twelve", "11:55", ()), ("two weeks", "vierzehn Tage", ()),
        ("two hundred and five", "zweihundertfünf", ()),
        ("two hundred and five", "zweihundertfünfzig", ("two hundred and five",)),
        ("one of them, a hundred, a dozen, second", "sie", ()), ("two of them", "beide", ()),
        ("twelve eggs", "ein Dutzend Eier", ()), ("an eighty-year-old man", "ein achtzigjähriger Mann", ()),
        ("nineteen eighty-four", "1984", ()), ("nineteen eighty-four", "neunzehnhundertvierundachtzig", ()),
        ("nineteen eighty-four", "1948", ("nineteen eighty-four",)), ("half past six", "halb sieben", ()),
        ("half seven", "halb sieben", ()), ("at ten-thirty", "um halb elf", ()),
        ("at eleven at night", "um 23 Uhr", ()), ("at eleven people", "23 Leute", ("eleven",)),
        ("one and a half million", "1,5 Millionen", ()),
        ("two billion people", "zwei Milliarden Menschen", ()),
        ("two billion people", "zwei Billionen Menschen", ("two billion",)),
        ("seventy thousand cars", "siebentausend Autos", ("seventy thousand",)),
        ("two million people", "2 Millionen Menschen", ()), ("ten miles", "sechzehn Kilometer", ()),
        ("ten miles", "sechs Meilen", ("ten",)), ("cut in two", "durchgeschnitten", ()),
        ("Six Flags", "die Firma Six Flags", ()), ("thirteen people", "13 Leute", ()),
        ("two men, 3 dogs", "2 Männer, drei Hunde", ()), ("3 dogs", "Hunde", ("3",)),
        ("3 dogs", "die dritten", ()), ("1 dog", "ein Hund", ()), ("1 dog", "2 Hunde", ("1",)),
        ("two men and two women", "zwei Männer und Frauen", ("two",)),
        ("two men and two women", "zwei Männer und beide Frauen", ()),
        ("two dozen eggs, 48 hens", "24 Eier, vier Dutzend Hennen", ()),
        ("on May 3, 1998", "am 3.5.1998", ()), ("on August 25th", "am 25.8.", ()),
        ("on August 25th", "am 26.8.", ("25",)), ("the twenty-second", "der 22.", ()),
        ("at 2:30", "um halb drei", ()), ("at 2:30", "um drei", ("2:30",)),
        ("at 2:30 pm", "um vierzehn Uhr dreißig", ()), ("at 9:55", "um fünf vor zehn Uhr", ()),
        ("30 minutes", "eine halbe Stunde", ()), ("half of the 30 pupils", "die Hälfte der Schüler", ("30",)),
        ("drinks CO2", "trinkt Kohlendioxid", ()), ("0 degrees", "null Grad", ()),
        ("54 million people", "Millionen Menschen", ("54",)),
        ("two people, a man and a woman", "ein Mann und eine Frau", ()),
        ("two people, one tall, one small", "Leute, einer groß, einer klein", ("two",)),
        ("three people, two men and a woman", "zwei Männer und eine Frau", ()),
        ("30 miles, in 1998", "48 km, im Jahr", ("1998",)), ("200 meters long", "lang", ("200",)),
        ("five feet, two inches tall", "1,58 m groß", ()),
    ],
)  # fmt: skip
def test_numbers_in_words_are_compared_by_value(source, target, missing):
    assert differing_numbers(source, target, ("en", "de_DE"))[0] == missing


@given(st.lists(st.integers(13, 10**6).map(str), min_size=1), st.randoms(use_true_random=False))
def test_each_number_has_one_counterpart(numbers, random):
    source, target = " + ".join(numbers), random.sample(numbers, len(numbers))
    assert differing_numbers(source, " + ".join(target), ("en", "de")) == ((), ())
    lost = target.pop()
    assert differing_numbers(source, " + ".join(target), ("en", "de")) == ((lost,), ())
    assert differing_numbers(" + ".join(target), source, ("en", "de")) == ((), (lost,))


@pytest.mark.parametrize("languages", [("en", "de"), ("en", "zh"), ("", "")])
@pytest.mark.parametrize("text", ["{} dogs", "at {} pm", "on page {}", "3 cats, {} dogs and 3 hens"])
def test_each_change_of_a_small_number_is_reported(text, languages):
    for value, other in itertools.permutations(range(1, 13), 2):
        expected = (str(value),), (str(other),)
        assert differing_numbers(text.format(value), text.format(other), languages) == expected


@pytest.mark.parametrize(
    ("language", "source", "target"),
    [
        ("es", "twenty-two men and two women, at 7 pm", "veintidós hombres y dos mujeres, a las 19"),
        ("es", "the twenty-second of May, 3 dogs", "el veintidós de mayo, tres perros"),
        ("es", "It's 9:45; a pair of 50s", "Son las diez menos cuarto; un par de 50"),
        ("es", "in the 1920s", "en los años veinte"),
        ("fr", "90 men and 3 bilingual women", "quatre-vingt-dix hommes et trois femmes bilingues"),
        ("pl", "On May 3, two dozen men came.", "3 maja przyszły dwa tuziny mężczyzn."),
        ("pl", "a five-star hotel, 1.5 hours", "pięciogwiazdkowy hotel, półtorej godziny"),
        ("pl", "in nineteen eighty-four", "w tysiąc dziewięćset osiemdziesiątym czwartym"),
        ("pt", "3 dogs: a colon", "três cães: dois pontos"),
    ],
)
def test_correct_translations_cause_no_report_in_either_direction(language, source, target):
    assert differing_numbers(source, target, ("en", language)) == ((), ())
    assert differing_numbers(target, source, (language, "en")) == ((), ())


def test_numbers_in_words_are_compared_only_between_languages_whose_words_are_known():
    assert differing_numbers("eighty", "八十", ("en", "zh")) == ((), ())
    assert differing_numbers("eighty", "acht") == ((), ())
    assert differing_numbers("80 Leute, 13", "eighty people, thirteen", ("de", "en")) == ((), ())
    assert differing_numbers("eighty", "80", ("en", "zh")) == ((), ())


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", ["1", "1 ", "1,", "000", "IV ", "1 000", "7 1", "1 mil ", "1k", "two ", "meter", "ninety-two, "]
)
def test_comparison_of_numbers_takes_linear_time(part):
    def compare(text):
        differing_numbers(text + "1", text + " 77", ("en", "de"))

    assert growth(compare, part * 4_000, part * 16_000, limit=3, attempts=8) < 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [
        ("9:30 ", "9, "), ("12.05.1998, ", "12, 1998, "), ("3, ", "4, "), ("3 miles, ", "m 5, "),
        ("two men, a ", "ein, "), ("1.2.3.", "1, 2, "), ("twenty-two ", "zwei, "), ("3 million, ", "5 "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("languages", [("en", "de"), ("en", "zh")])
def test_comparison_of_different_numbers_takes_linear_time(parts, languages):
    def compare(text):
        other = parts[1] * (len(text) // len(parts[0]))
        differing_numbers(text, other, languages)
        differing_numbers(other, text, languages)

    assert growth(compare, parts[0] * 500, parts[0] * 2_000, limit=3, attempts=8) < 3


@pytest.mark.parametrize("link", [0.0, 0.05, 0.2, 0.5, 0.9, 1.0])
def test_better_linked_words_need_more_evidence(link):
    shared, own = (min_evidence(link, is_best, has_link_model=True) for is_best in (False, True))
    assert shared <= own and own <= min_evidence(1.0, is_best=True, has_link_model=True)
    assert (shared == -math.inf) == (link < 0.1)
    # Without a link model, no word counts as omitted without evidence.
    assert all(min_evidence(link, is_best, has_link_model=False) >= 0.0 for is_best in (False, True))


def test_evidence_of_omission_compares_the_tokens_that_change_most():
    complete = [-1.0, -0.5, -0.5, -0.1]
    assert evidence_of_omission(complete, complete) == 0.0 == evidence_of_omission([], [])
    assert evidence_of_omission(complete, [-0.25, -2.5, -1.5, -0.1]) == 0.75 - 2.0
    # Where no token becomes more probable, or none less probable, only the other change counts.
    assert evidence_of_omission(complete, [-1.0, -2.5, -1.5, -0.1]) == -2.0
    assert evidence_of_omission(complete, [-0.5, -0.25, -0.5, -0.1]) == 0.5


def test_improbable_forced_words_are_no_translation():
    complete, shortened = [-0.5, -9.0, -0.5, -0.5], [-1.0, -9.5, -3.5, -0.25]
    first, second = range(1), range(1, 3)
    assert evidence_of_omission(complete, shortened) == 0.25 - 3.0
    assert evidence_of_omission(complete, shortened, [first, second]) == 0.25 - 0.5
    assert evidence_of_omission(complete, [-0.5, -7.0, -3.5, -0.5], [first, second]) == 2.0
    # A probable forced word is a translation like any other.
    assert evidence_of_omission(complete, shortened, [first]) == 0.25 - 3.0
    assert evidence_of_omission(complete[:1], shortened[:1], [first, second]) == -0.5


@pytest.mark.parametrize("mode", [True, "unaligned"])
@pytest.mark.parametrize(
    ("text", "lacking", "omitted"),
    [
        # Two words are aligned to one word of the translation, which translates one of them.
        ("The woman in the brown shirt is sitting on a bright red bench.", "rot", "red"),
        ("All of Tom's friends laughed at me.", "Freund", "friends"),
        ("A man is dancing with a dog between his legs.", "Hund", "dog"),
    ],
)
def test_word_whose_link_is_shared_counts_as_omitted(translator, mode, text, lacking, omitted):
    translation = translator.translate(text, coverage=mode)
    assert lacking not in translation.text  # otherwise the sentence no longer tests anything
    assert omitted in translation.coverage.omitted


@pytest.mark.parametrize("mode", [True, "unaligned"])
def test_word_lost_after_a_forced_prefix_is_reported(translator, mode):
    text = "I would like to buy a small red car tomorrow"
    complete = translator.translate(text, coverage=mode, prefix="Ich möchte morgen ein schönes")
    assert "rotes" in complete.text and complete.coverage.omitted == ()
    incomplete = translator.translate(text, coverage=mode, prefix="Ich möchte morgen ein winziges")
    assert "rot" not in incomplete.text  # otherwise the prefix no longer tests anything
    assert incomplete.coverage.omitted == ("red",)


def test_word_without_any_link_counts_as_omitted_even_without_a_likelihood_gain(translator):
    result = translator.translate("It gets dark early in winter.", coverage=True)
    assert result.text == "Im Winter wird es dunkel."
    assert result.coverage.omitted == ("early",)


def test_source_words_aligned_with_improbable_tokens_are_doubtful():
    weights = np.array([[0.9, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.05, 0.95]], np.float32)  # (target, source)
    pieces = PieceAlignment(((0, 3), (4, 8), (8, 9)), ((0, 3), (4, 5), (5, 8)), weights)
    copied = PieceAlignment(((10, 12),), ((9, 11),), np.eye(1, dtype=np.float32), copied=True)
    hypothesis = Hypothesis((7, 8, 9), -6.0, -6.0, (-0.1, -0.2, -5.0, -0.1))
    sentences = [Sentence((4, 5, 6), hypotheses=[hypothesis]), Sentence((), copy="12")]
    passage = Passage("", sentences, pieces=(pieces, copied))
    assert improbable_source_starts(passage) == {8}
    sentences[0].hypotheses = [replace(hypothesis, token_scores=(-3.0, -0.2, -0.1, -0.1))]
    assert improbable_source_starts(passage) == {0, 4}


def test_omitted_word_is_reported(translator):
    texts = [MEETING, "I want to buy a car.", "Tom", "", "12"]
    incomplete, *complete = translator.translate(texts, coverage=True)
    assert "Montag" not in incomplete.text  # otherwise the sentence no longer tests anything
    assert incomplete.coverage.omitted == ("Monday",) and incomplete.to_dict()["coverage"]["omitted"] == [
        "Monday"
    ]
    assert any("'Monday'" in warning for warning in incomplete.warnings)
    assert [translation.coverage for translation in complete] == [Coverage()] * 4 and not any(
        translation.warnings for translation in complete
    )
    assert [translation.text for translation in translator.translate(texts)] == [
        incomplete.text,
        *(translation.text for translation in complete),
    ]
    assert translator.translate(MEETING).coverage is None


def test_unaligned_mode_of_coverage_scores_only_unaligned_words(translator, monkeypatch):
    scored = []
    original = coverage.score_in_batches

    def in_batches(scores, pairs, *arguments):
        scored.append(len(pairs))
        return original(scores, pairs, *arguments)

    monkeypatch.setattr(coverage, "score_in_batches", in_batches)
    translations = [translator.translate(MEETING, coverage=words) for words in (True, "unaligned")]
    assert translations[0].coverage == translations[1].coverage
    assert translations[0].coverage == Coverage(("Monday",), omitted_spans=((30, 36),))
    # "Monday", which is linked to nothing, is omitted without being scored.
    assert scored == [1 + len(["meeting", "starts", "9"])]


def test_coverage_is_reported_for_html_split_texts_and_model_chains(translator):
    page = translator.translate(f"<p>I like <b>dogs</b>.</p><p>{MEETING}</p>", format="html", coverage=True)
    assert page.coverage.omitted == ("Monday",)
    sentences = translator.translate(f"I like dogs. {MEETING}", split="sentences", coverage=True)
    assert sentences.coverage.omitted == ("Monday",)
    second = replace(translator.model, languages=("src", "tgt"), known=None)
    chain = uwaga.Translator(translator.model, second).translate(MEETING, coverage=True)
    assert chain.coverage == combine_coverage(step.coverage for step in chain.steps)
    assert "Monday" in chain.coverage.omitted


def test_combined_coverage_contains_the_parts_whose_coverage_is_known():
    first, second = (
        Coverage(("b",), ("20",), (), ((2, 3),)),
        Coverage(("a", "b"), (), ("30",), ((0, 1), (5, 6))),
    )
    combined = combine_coverage([first, None, second], [0, 4, 10])
    assert combined == Coverage(("b", "a", "b"), ("20",), ("30",), ((2, 3), (10, 11), (15, 16)))
    assert combine_coverage([first, None, second]) == replace(combined, omitted_spans=())
    assert combine_coverage([first, replace(second, omitted_spans=())], [0, 4]).omitted_spans == ()
    assert combine_coverage([None, None], [0, 4]) is None and combine_coverage([]) is None
    assert combined.without(["b"]) == Coverage(("a",), ("20",), ("30",), ((10, 11),))


@pytest.mark.parametrize(
    "words", ["He sees. {0} {0}", "“{0}” http://sees.com/x {0}", "He sees {{name}}. {0}"]
)
def test_each_omitted_word_has_its_own_span_in_the_source(translator, words):
    text = words.format("The man carries near and school small garden large sees.")
    coverage = translator.translate(text, coverage=True).coverage
    assert len(coverage.omitted) == len(set(coverage.omitted_spans)) > 0
    assert [text[start:end] for start, end in coverage.omitted_spans] == list(coverage.omitted)
    assert list(coverage.omitted_spans) == sorted(coverage.omitted_spans)
    assert min(coverage.omitted_spans)[0] >= text.index("The man")
    assert translator.translate(f"<p>{text}</p>", coverage=True, format="html").coverage.omitted_spans == ()


def test_streams_reject_the_coverage_option(translator):
    with pytest.raises(SettingsError, match="coverage"):
        list(translator.stream(MEETING, coverage=True))


def test_missing_numbers_are_reported_without_the_coverage_option(translator):
    number = "It costs 1,250,000 dollars."
    texts = [number, f"{number} {{name}}"]
    for translation in translator.translate(texts):
        assert "number missing from the translation: '1,250,000'" in translation.warnings
    page = translator.translate(f"<p>{number}</p>", format="html")
    assert any("'1,250,000'" in warning for warning in page.warnings)


def test_number_that_coverage_examines_is_reported_once(translator):
    for text in ("He sold seventy thousand cars.", "As a prank, some students let three goats loose."):
        translation = translator.translate(text, coverage=True)
        numbers = {word for number in translation.coverage.missing_numbers for word in number.split()}
        assert numbers and numbers.isdisjoint(translation.coverage.omitted)
        assert len(translation.coverage.omitted) == len(translation.coverage.omitted_spans)


@pytest.mark.parametrize("coverage", [False, True])
def test_missing_numbers_in_words_are_reported(translator, coverage):
    text = "He sold seventy thousand cars."
    translation = translator.translate(text, coverage=coverage)
    assert "siebzigtausend" not in translation.text  # otherwise the sentence no longer tests anything
    assert "number missing from the translation: 'seventy thousand'" in translation.warnings
    page = translator.translate(f"<p>{text}</p>", format="html")
    assert any("'seventy thousand'" in warning for warning in page.warnings)


@pytest.mark.parametrize("coverage", [True, "unaligned"])
def test_coverage_is_reported_with_terms_and_alternatives(translator, coverage):
    options = {
        "prefix": "Ich möchte einen PKW kaufen.",
        "glossary": {"car": "Wagen"},
        "coverage": coverage,
        "split": "never",
    }
    for text in ("I want to buy a car.", "I want to buy a red car."):
        best = translator.translate(text, **options, nbest=5)
        assert len(best.alternatives) == 4 and best.coverage is not None
        assert best.text == translator.translate(text, **{**options, "coverage": False}, nbest=5).text
    plain = translator.translate("A car. A dog.", glossary={"car": "Wagen"}, coverage=coverage, nbest=5)
    assert plain.coverage is not None and "Wagen" in plain.text


@pytest.mark.parametrize(
    ("source", "target", "added"),
    [
        ("Anna Jones", "Anna Jones (em inglês)", ("(em inglês)",)), ("Sum", "Sum (", ("(",)),
        ("Sum", "Sum )", (")",)), ("Sum (all)", "Summe (alle)", ()), ("1) Sum [all]", "1) Summe (alle)", ()),
        ("Anna Jones (UN)", "Anna Jones (UN) (em inglês)", ("(em inglês)",)),
        ("a", "a ((b) c) d", ("((b) c)",)), ("the coat", "o casaco (peça)", ()),
    ],
)  # fmt: skip
def test_brackets_added_by_the_model_are_detected(source, target, added):
    assert find_added_brackets(source, target, ["casaco (peça)"]) == added


@pytest.mark.parametrize(
    ("source", "target", "added"),
    [
        ("Anna Jones", "Anna Jones em inglês", ("em", "inglês")),
        ("Springfield", "Hotéis em Springfield", ("Hotéis", "em")), ("January", "Janeiro de", ("de",)),
        ("int", "O que em em to o", ("O", "que", "em", "to", "o")),
        ("Files", "Os arquivos arquivos", ("arquivos",)), ("London", "Londres", ()),
        ("Shopping cart", "Carrinho de compras", ()), ("Tom", "Tom", ()),
        ("Red shoes", "sapatos vermelhos", ()), ("Save as", "Salvar como", ()),
        ("The man from Springfield sleeps", "Hotéis em Springfield", ()),
        ("今天天气很好", "Hoje o tempo está muito bom e quente", ()),
    ],
)  # fmt: skip
def test_words_added_to_translations_of_short_texts_are_detected(source, target, added):
    assert find_added_words(source, target, "pt") == added


def test_unaligned_target_words_are_reported_as_additions():
    alignment = WordAlignment(((0, 5),), ((0, 3), (4, 10)), ((0, 1),))
    assert find_added_words("Hello", "Ola amigos", "pt", alignment) == ("Ola",)
    assert find_added_words("Hello", "Ola amigos", "pt", alignment, ["Ola"]) == ()


@pytest.mark.parametrize("part", ["(", ")", "()", "a ", "(a) "])
def test_detection_of_additions_takes_linear_time(part):
    def find_additions(text):
        find_added_brackets("a", text)
        find_added_words("a", text, "pt")

    assert growth(find_additions, part * 4_000, part * 16_000, limit=3, attempts=8) < 3


def test_function_words_are_recognised(translator):
    text = "In order to go down, he will not order either a book upon request."
    words = {text[start:].split()[0].strip(",.") for start in function_words(text, "en")}
    assert (
        words == {"In", "order", "to", "down", "will", "either", "upon"}
        and function_words(text, "xx") == frozenset()
    )
    assert len(function_words(text, "en")) == 7
    polite = "I would like, I'd like, I like."
    first, second, third = (match.start() for match in re.finditer("like", polite))
    assert {first, second} < function_words(polite, "en") and third not in function_words(polite, "en")


def test_term_forced_by_a_glossary_causes_no_coverage_warning(translator):
    glossary = {"car": "Karosse", "Monday": "Wochenbeginn"}
    translation = translator.translate("The car is fast.", glossary=glossary, coverage=True)
    assert translation.terms[0].applied and "Karosse" in translation.text and not translation.warnings
    forced = translator.translate(MEETING, glossary=glossary, coverage=True)
    assert not any(warning.startswith(UNFAMILIAR_TEXT) for warning in forced.warnings)
    assert "Monday" not in forced.coverage.omitted

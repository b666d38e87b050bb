"""Numbers in words: their values, and words that only look like numbers."""

import pytest
from growth import growth
from hypothesis import given
from hypothesis import strategies as st

from uwaga.languages.number_words import NUMBER_WORDS, find_numbers, has_fraction, has_list, possible_numbers

# ruff: noqa: SIM905 (a list of words is easier to read as one text)

ENGLISH = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN = (
    "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
).split()
GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
FRENCH = (
    "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
    "dix-huit dix-neuf"
).split()
FRENCH_TENS = "vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()


def english(value: int) -> str:
    for scale, name in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= scale:
            high, low = divmod(value, scale)
            rest = "" if low == 0 else f" and {english(low)}" if low < 100 else f" {english(low)}"
            return f"{english(high)} {name}{rest}"
    if value < 20:
        return ENGLISH[value - 1]
    tens, ones = divmod(value, 10)
    return ENGLISH_TENS[tens - 2] + (f"-{ENGLISH[ones - 1]}" if ones else "")


def german(value: int) -> str:
    for scale, name in ((10**9, "Milliarden"), (10**6, "Millionen")):
        if value >= scale:
            high, low = divmod(value, scale)
            return f"{german(high)} {name}" + (f" {german(low)}" if low else "")
    for scale, name in ((1000, "tausend"), (100, "hundert")):
        if value >= scale:
            high, low = divmod(value, scale)
            return german(high) + name + (german(low) if low else "")
    if value < 20:
        return GERMAN[value - 1]
    tens, ones = divmod(value, 10)
    return (f"{GERMAN[ones - 1]}und" if ones else "") + GERMAN_TENS[tens - 2]


def french(value: int) -> str:
    for scale, name in ((10**9, "milliards"), (10**6, "millions"), (1000, "mille"), (100, "cent")):
        if value >= scale:
            high, low = divmod(value, scale)
            count = "" if high == 1 and scale <= 1000 else f"{french(high)} "
            return f"{count}{name}" + (f" {french(low)}" if low else "")
    if value < 20:
        return FRENCH[value - 1]
    tens, ones = divmod(value, 10)
    ones += 10 if tens in (7, 9) else 0
    joint = " et " if ones % 10 == 1 and tens < 8 else "-"
    return FRENCH_TENS[tens - 2] + (joint + FRENCH[ones - 1] if ones else "")


def values(text: str, language: str) -> list[int]:
    return [number.value for number in find_numbers(text, language)]


@given(st.integers(2, 10**12 - 1) | st.integers(2, 2000))
def test_number_in_words_has_its_value(value):
    for language, spell in (("en", english), ("de", german), ("fr", french)):
        text = f"x {spell(value)}, y"
        [number] = find_numbers(text, language)
        assert number.value == value and text[slice(*number.span)] == spell(value)


@pytest.mark.parametrize("language", NUMBER_WORDS)
def test_single_number_word_has_exactly_one_value(language):
    for entry in NUMBER_WORDS[language].split(","):
        value, *words = entry.split("|")[0].split()
        for word in words:
            assert values(word.upper(), language) == ([int(value)] if int(value) > 1 else [])


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Twenty-one men and two hundred and five women", [21, 205]),
        ("en", "two and three, four five", [2, 3, 4, 5]),
        ("en", "nineteen eighty-four", [1984]),
        ("en", "seventeen hundred, two million five hundred thousand", [1700, 2_500_000]),
        ("de", "neunzehnhundertvierundachtzig, zwischen tausend und zweitausend", [1984, 1000, 2000]),
        ("de", "zweihundert und fünf, acht und drei", [205, 8, 3]),
        ("fr", "vingt-et-un, quatre-vingt-dix-sept, septante-deux", [21, 97, 72]),
        ("es", "treinta y cinco, dos mil millones, doscientas una, veintiuno", [35, 2 * 10**9, 201, 21]),
        ("pt", "vinte e um, mil e duzentos, cento e vinte e cinco, dois e três", [21, 1200, 125, 2, 3]),
        ("pl", "dwa tysiące dwieście pięćdziesiąt trzy, osiemdziesiąt jeden", [2253, 81]),
        ("en", "one, a one-off, tension", []),
        ("en", "İ ten", [10]),
        ("pl", "İ dwa None trzy", [2, 3]),
        ("pl", "jedenaścioro dzieci z trojgiem rodziców", [11, 3]),
        ("en_XX", "eighty", [80]),
        ("xx", "two zwei deux", []),
    ],
)
def test_successive_number_words_form_one_number(language, text, expected):
    assert values(text, language) == expected


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "a thousand thanks"), ("en", "on the twenty-second"), ("en", "four dozen eggs"),
        ("en", "I was on cloud nine."), ("en", "Cut it in two."), ("de", "unter vier Augen"),
        ("de", "Gib acht!"), ("fr", "un vélo neuf"),
    ],
)  # fmt: skip
def test_number_words_in_idioms_and_ordinals_are_uncertain(language, text):
    assert not any(number.is_certain for number in find_numbers(text, language))


def test_number_words_outside_idioms_are_certain():
    for text in ("in two days", "nine clouds", "twenty-two", "two hundred"):
        assert all(number.is_certain for number in find_numbers(text, "en"))


def test_possible_numbers_include_ordinals_months_and_words_such_as_dozen():
    assert {2, 12, 24} <= set(possible_numbers("both, a dozen, the twenty-fourth", "en"))
    assert {22, 24, 48} <= set(possible_numbers("the twenty-second, two dozen, four dozen", "en"))
    assert {1984, 2022} <= set(
        possible_numbers("tysiąc dziewięćset osiemdziesiąty czwarty, dwa tysiące dwudziesty drugi", "pl")
    )
    assert possible_numbers("two and both, both", "en") == [2, 2, 2]
    assert set(possible_numbers("achtzigjährig", "de")) == {80}
    assert 5 in possible_numbers("am 3. Mai", "de") and 12 in possible_numbers("Dec 3", "en")
    assert not possible_numbers("para parte, triste", "pt") and possible_numbers("um par", "pt") == [1, 2]
    assert has_fraction("um halb sieben", "de") and not has_fraction("Tom half mir", "de")
    assert has_fraction("dreieinhalb", "de") and not has_fraction("por meio de", "pt")


@pytest.mark.parametrize(
    ("language", "text", "total"),
    [
        ("en", " people, a man and a woman", 2), ("en", " people, two men and a girl", 3),
        ("de", " Leute: ein Mann und zwei Frauen", 3), ("pl", " osoby, jedna stoi, druga siedzi", 2),
        ("en", " people near a man and a woman", None), ("en", " people, a man. A woman", None),
        ("xx", " people, a man and a woman", None),
    ],
)  # fmt: skip
def test_list_after_a_comma_is_recognised_by_its_sum(language, text, total):
    assert [value for value in range(2, 10) if has_list(text, value, language)] == [total] * (
        total is not None
    )


@pytest.mark.slow
@pytest.mark.parametrize("language", NUMBER_WORDS)
@pytest.mark.parametrize(
    "part",
    ["two ", "or two, ", "eins", "drei und ", "x", "viertel", "vingt et ", "mil e ", "two dozen ", "may "],
)
def test_numbers_are_found_in_linear_time(language, part):
    def find(text):
        find_numbers(text, language)
        possible_numbers(text, language)
        has_fraction(text, language)
        has_list(text, 2, language)

    assert growth(find, part * 2_000, part * 8_000, limit=6, attempts=8) < 6

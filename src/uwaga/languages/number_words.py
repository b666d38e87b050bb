"""Numbers in words, such as *two hundred and five*, *zweihundertfünf* and *quatre-vingt-dix-sept*.

The words are those of the rules of the CLDR for spelling numbers out, with their inflected forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import NamedTuple

from uwaga.languages.codes import base_language

NUMBER_WORDS = {
    "de": """
        0 |null, 1 ein eins, 2 zwei zwo zweien|beid doppel paar zwilling übermorgen,
        3 drei dreien dreier|dritt drill trio, 4 vier vieren|quad quart, 5 fünf fuenf fünfen, 6 sechs sechsen,
        7 sieben|siebt, 8 acht, 9 neun, 10 zehn|jahrzehnt, 11 elf, 12 zwölf zwoelf|dutzend mittag mitternacht,
        13 dreizehn, 14 vierzehn, 15 fünfzehn fuenfzehn, 16 sechzehn, 17 siebzehn, 18 achtzehn, 19 neunzehn,
        20 zwanzig, 30 dreißig dreissig, 40 vierzig, 50 fünfzig fuenfzig, 60 sechzig, 70 siebzig, 80 achtzig,
        90 neunzig, 100 hundert|jahrhundert, 1000 tausend|jahrtausend, 1000000 million millionen,
        1000000000 milliarde milliarden, 1000000000000 billion billionen
    """,
    "en": """
        0 |zero nil. naught no., 1 one, 2 two|biped bidim bilat biling,
        2 |both couple double either fortnight neither opposite pair second. twice twin,
        3 three|third thrice triang tricy tridim tripl trio, 4 four|quad quart, 5 five|fifth quint, 6 six,
        7 seven, 8 eight, 9 nine|ninth, 10 ten|decade, 11 eleven,
        12 twelve|dozen midday midnight noon twelfth, 13 thirteen, 14 fourteen|fortnight, 15 fifteen,
        16 sixteen, 17 seventeen, 18 eighteen, 19 nineteen, 20 twenty|twentie, 30 thirty|thirtie,
        40 forty fourty|fortie, 50 fifty|fiftie, 60 sixty|sixtie, 70 seventy|seventie, 80 eighty|eightie,
        90 ninety|ninetie, 100 hundred|centur, 1000 thousand|millenni, 1000000 million, 1000000000 billion,
        1000000000000 trillion
    """,
    "fr": """
        0 |zéro nul, 1 un une, 2 deux|bidim bilat biling bipèd couple double paire second,
        3 trois|tiers triang tricy tridim tripl trio, 4 quatre|quad quat quart, 5 cinq, 6 six, 7 sept, 8 huit,
        9 neuf|neuv, 10 dix|décennie dizaine, 11 onze, 12 douze|douz midi minuit, 13 treize, 14 quatorze,
        15 quinze|quinz, 16 seize, 20 vingt vingts, 30 trente|trent demi, 40 quarante|quarant,
        50 cinquante|cinquant, 60 soixante|soixant, 70 septante, 80 huitante octante, 90 nonante,
        100 cent cents|siècle, 1000 mille|millénaire millier, 1000000 million millions,
        1000000000 milliard milliards, 1000000000000 billion billions
    """,
    "es": """
        0 |cero, 1 un uno una ún, 2 dos|ambas ambos bidim bilat biling bíped doble par. pares. pareja segund,
        3 tres|tercer triáng triang tricic tridim tripl trío, 4 cuatro|cuadri cuadru cuart cuádr,
        5 cinco|quint, 6 seis|sext, 7 siete|séptim, 8 ocho|octav, 9 nueve|noven, 10 diez|década decena décim,
        11 once, 12 doce|docena mediodía medianoche, 13 trece, 14 catorce, 15 quince, 16 dieciséis dieciseis,
        17 diecisiete, 18 dieciocho, 19 diecinueve, 20 veinte|veint, 21 veintiún veintiuno veintiuna,
        22 veintidós veintidos, 23 veintitrés veintitres, 24 veinticuatro, 25 veinticinco,
        26 veintiséis veintiseis, 27 veintisiete, 28 veintiocho, 29 veintinueve, 30 treinta, 40 cuarenta,
        50 cincuenta, 60 sesenta, 70 setenta, 80 ochenta, 90 noventa, 100 cien ciento|siglo,
        200 doscientos doscientas, 300 trescientos trescientas, 400 cuatrocientos cuatrocientas,
        500 quinientos quinientas, 600 seiscientos seiscientas, 700 setecientos setecientas,
        800 ochocientos ochocientas, 900 novecientos novecientas, 1000 mil|millar milenio,
        1000000 millón millones, 1000000000000 billón billones
    """,
    "pl": """
        0 |zero zera zerow, 1 jeden jedna jedno,
        2 dwa dwie dwóch dwu dwaj dwóm dwom dwoma dwiema dwoje dwojga,
        2 |drug obaj oba. obie. oboj obu. obydw par. para. parą. parę. parze. pary. podwój,
        3 trzy trzech trzej trzem trzema troje trojga trojgu trojgiem|trio. trzeci trzykrot trój,
        4 cztery czterech czterej czterem czterema czworo czworga czworgiem czworgu|czter czwart,
        5 pięć pięciu pięcioma pięcioro pięciorga pięciorgiem pięciorgu|piąt pięcio,
        6 sześć sześciu sześcioma sześcioro sześciorga sześciorgiem|sześcio szóst,
        7 siedem siedmiu siedmioma siedmioro siedmiorga siedmiorgiem|siódm siedm,
        8 osiem ośmiu ośmioma ośmioro ośmiorga ośmiorgiem|ośmio ósm,
        9 dziewięć dziewięciu dziewięcioma dziewięcioro dziewięciorga|dziewiąt dziewięcio,
        10 dziesięć dziesięciu dziesięcioma dziesięcioro dziesięciorga|dekad dziesiąt dziesięcio,
        11 jedenaście jedenastu jedenastoma jedenaścioro|jedenast,
        12 dwanaście dwunastu dwunastoma dwanaścioro dwunast|tuzin południ północ,
        13 trzynaście trzynastu trzynastoma trzynaścioro|trzynast,
        14 czternaście czternastu czternastoma czternaścioro|czternast,
        15 piętnaście piętnastu piętnastoma piętnaścioro|piętnast kwadrans,
        16 szesnaście szesnastu szesnastoma szesnaścioro|szesnast,
        17 siedemnaście siedemnastu siedemnastoma siedemnaścioro|siedemnast,
        18 osiemnaście osiemnastu osiemnastoma osiemnaścioro|osiemnast,
        19 dziewiętnaście dziewiętnastu dziewiętnastoma dziewiętnaścioro|dziewiętnast,
        20 dwadzieścia dwudziestu dwudziestoma dwadzieścioro dwudziest,
        30 trzydzieści trzydziestu trzydziestoma|trzydziest,
        40 czterdzieści czterdziestu czterdziestoma|czterdziest,
        50 pięćdziesiąt pięćdziesięciu pięćdziesięcioma|pięćdziesięcio,
        60 sześćdziesiąt sześćdziesięciu sześćdziesięcioma|sześćdziesięcio,
        70 siedemdziesiąt siedemdziesięciu siedemdziesięcioma|siedemdziesięcio,
        80 osiemdziesiąt osiemdziesięciu osiemdziesięcioma|osiemdziesięcio,
        90 dziewięćdziesiąt dziewięćdziesięciu dziewięćdziesięcioma|dziewięćdziesięcio,
        100 sto stu|setn stuleci wiek, 200 dwieście dwustu dwustoma, 300 trzysta trzystu trzystoma,
        400 czterysta czterystu czterystoma, 500 pięćset pięciuset, 600 sześćset sześciuset,
        700 siedemset siedmiuset, 800 osiemset ośmiuset, 900 dziewięćset dziewięciuset,
        1000 tysiąc tysiące tysięcy tysiąca tysiącom tysiącami tysiącach|tysięczn,
        1000000 milion miliony milionów miliona milionom milionami milionach,
        1000000000 miliard miliardy miliardów miliarda, 1000000000000 bilion biliony bilionów
    """,
    "pt": """
        0 |zero nul, 1 um uma,
        2 dois duas|ambas ambos bidim bilat biling bíped casal dobro dupl par. pares. segund,
        3 três|terceir triâng triang tricic tridim tripl trio, 4 quatro|quadri quadru quart quádr,
        5 cinco|quint, 6 seis|sext, 7 sete|sétim, 8 oito|oitav, 9 nove|nona nono, 10 dez|década dezena décim,
        11 onze, 12 doze|dúzia meia-noite meio-dia, 13 treze, 14 catorze quatorze, 15 quinze|quinzena,
        16 dezesseis dezasseis, 17 dezessete dezassete, 18 dezoito, 19 dezenove dezanove, 20 vinte|vigésim,
        30 trinta, 40 quarenta, 50 cinquenta cinqüenta, 60 sessenta, 70 setenta, 80 oitenta, 90 noventa,
        100 cem cento|centena século, 200 duzentos duzentas, 300 trezentos trezentas,
        400 quatrocentos quatrocentas, 500 quinhentos quinhentas, 600 seiscentos seiscentas,
        700 setecentos setecentas, 800 oitocentos oitocentas, 900 novecentos novecentas,
        1000 mil|milhar milênio milénio, 1000000 milhão milhões, 1000000000 bilhão bilhões,
        1000000000000 bilião biliões trilhão trilhões
    """,
}
"""Number words by language: a value, its words, and after ``|`` the beginnings of other words that may stand
for it in a translation, such as ordinals and *dozen*; those with a full stop are whole words."""
FRACTIONS = {
    "de": r"halb(?:e[mnrs]?)?|anderthalb\w*|\w*einhalb\w*|hälften?|\w*viertel(?:stunden?)?|\w*drittel",
    "en": r"half|halves|quarters?|thirds|fourths|fifths|scores?",
    "es": r"(?<!por )(?<!en )medi[oa]|mitad|cuartos?|tercios?",
    "fr": r"demie?s?|moitié|quarts?|tiers",
    "pl": r"w?pół|połow\w+|kwadrans\w*|półtor\w*|ćwier\w+",
    "pt": r"(?<!por )(?<!no )(?<!em )mei[oa]|metade|quartos?|terços?",
}
"""Words for fractions, also in times of day: *half past six* is *halb sieben*."""
IDIOMS = {
    "de": r"acht|\w+ augen|alle zwei (?:jahre|monate|stunden|tage|wochen)|alle[nr]? vieren?|"
    r"eine[rn]? (?:zwei|drei|vier|fünf|sechs)|einen? meter \w+|"
    r"wolke sieben|zwei linke|zwei wochen|drei zählen|(?:vierzehn|acht) tagen?|dreizehn(?= *!)",
    "en": r"\w+[ -](?:speed|way|wheel)\w*|cloud nine|hang\w* ten|high[ -]fives?|in two(?! ?\w)|no two|or two|"
    r"saves nine|six feet under|six[ -]packs?|two and two|two[ -]by[ -]fours?|two cents|two[ -]tone\w*|"
    r"two weeks|you two",
    "es": r"dos puntos|dos semanas|en dos(?! ?\w)|quince días",
    "fr": r"neuf|deux[ -]points?|en deux(?! ?\w)|deux[ -]roues|tou(?:s|tes)(?: les)? deux|deux semaines|"
    r"(?:quinze|huit) jours",
    "pl": r"dwa tygodnie|dwóch tygodni\w*|na dwoje",
    "pt": r"dois pontos|duas semanas|em dois(?! ?\w)|quinze dias",
}
"""Words and phrases that translations need not express by a number: *unter vier Augen* is *in private*."""
MONTHS = {
    "de": """
        jan. janu, feb. febr, mär. märz, apr. apri, mai. mais., jun. juni, jul. juli, aug. augu, sept,
        okt. okto, nov. nove, dez. deze
    """,
    "en": """
        jan. janu, feb. febr, mar. march, apr. apri, may., jun. june, jul. july, aug. augu, sept, oct.
        octo, nov. nove, dec. dece
    """,
    "es": """
        ene. ener, feb. febr, mar. marz, abr. abri, may. mayo, jun. juni, jul. juli, ago. agos, sept, oct.
        octu, nov. novi, dic. dici
    """,
    "fr": """
        janv, févr, mars., avr. avri, mai., juin., juil, août, sept, oct. octo, nov. nove, déc. déce
    """,
    "pl": """
        sty. stycz, lut. lute, mar. marz marc, kwi. kwie, maj. maja. maju., cze. czerw, lip. lipi lipc,
        sie. sierp, wrze, paź. paźd, lis. list, gru. grud
    """,
    "pt": """
        jan. jane, fev. feve, mar. març, abr. abri, mai. maio., jun. junh, jul. julh, ago. agos, sete,
        out. outu, nov. nove, dez. deze
    """,
}
"""The beginnings of the names of the months; those with a full stop are whole words."""
ONES = {
    "de": r"eine?[mnrs]?|ander\w*",
    "en": r"an?|one|(?:an)?other",
    "es": r"un[ao]?|otr[ao]",
    "fr": r"une?|autre",
    "pl": r"jed(?:en|n[aąeio]\w*)|drug\w+",
    "pt": r"uma?|outr[ao]",
}
"""Words that count one, in a list such as *one boy and a girl*."""
MAX_LIST = 160
"""Maximum number of characters between a number and the list of what it counts."""
CONJUNCTIONS = {"de": "und", "en": "and", "es": "y", "fr": "et", "pt": "e"}
"""The word between the parts of a number. In German also between the parts of a word: *einundzwanzig*."""
CONJUNCTION_PLACES = {
    "de": (100, 1000),
    "en": (100, 1000),
    "es": (10,),
    "fr": (10, 20),
    "pt": (10, 100, 1000),
}
"""The bounds of values that may follow the conjunction; see :func:`_bound`."""
LIST = re.compile(r"[^.!?,;:(]*[,;:(]([^.!?]*)")
"""What follows a number up to a list, and the list."""
SEPARATORS = frozenset(" -\u00a0\u202f\u2010\u2011")
"""Characters between the words of a number."""
WORD_END = re.compile(r"\w*[ \u00a0\u202f\u2010\u2011-]")
"""The rest of a word, and what separates it from the next word of a number."""
NO_WORD = re.compile("(?!)")
MULTIPLIERS = (10**3, 10**6, 10**9, 10**12)
MAX_PARTS = 12
"""Maximum number of parts of a number in one word after the first."""


class NumberWords(NamedTuple):
    """A number in words: its span in the text and its value.

    ``parts`` are the two numbers of what may be a year or a time, such as *nineteen eighty-four*.
    ``is_certain`` is False if the words may have another meaning than a number, as *a thousand* has.
    """

    span: tuple[int, int]
    value: int
    is_certain: bool
    parts: tuple[int, ...] = ()


class _Vocabulary:
    """The number words of a language; patterns are compiled when they are first needed.

    ``values`` has the values of the parts of numbers, and ``others`` those of the beginnings of other words
    that may stand for numbers.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self.values, self.others = dict[str, int](), dict[str, int]()
        self.beginnings = list[str]()
        for entry in NUMBER_WORDS[language].split(","):
            value, _, words = entry.strip().partition(" ")
            forms, _, beginnings = words.partition("|")
            self.values |= dict.fromkeys(forms.split(), int(value))
            self.beginnings += beginnings.split()
            self.others |= dict.fromkeys(beginnings.replace(".", "").split(), int(value))
        part = _alternatives(self.values)
        self._number = f"(?:{part})"
        self._part = part
        if language == "de":
            self.values["und"] = 0
            self._number += f"(?:(?:und)?(?:{part})){{,{MAX_PARTS}}}"
            self._part += "|und"

    @cached_property
    def number(self) -> re.Pattern[str]:
        """A word that is a number or a part of one."""
        return re.compile(rf"\b{self._number}\b")

    @cached_property
    def beginning(self) -> re.Pattern[str]:
        """A number, or the beginning of a longer word that is one."""
        return re.compile(rf"\b{self._number}")

    @cached_property
    def part(self) -> re.Pattern[str]:
        """A part of a word that :attr:`number` or :attr:`beginning` matches."""
        return re.compile(self._part)

    @cached_property
    def other(self) -> re.Pattern[str]:
        """The beginning of another word that may stand for a number."""
        return re.compile(rf"\b(?:{_alternatives(self.beginnings)})")

    @cached_property
    def month(self) -> re.Pattern[str]:
        """The beginning of the name of a month, in the group of its number."""
        months = (_alternatives(names.split()) for names in MONTHS[self.language].split(","))
        return re.compile(rf"\b(?:{'|'.join(f'({names})' for names in months)})")

    @cached_property
    def count(self) -> re.Pattern[str]:
        """A word for *one*, or another number word."""
        return re.compile(rf"\b(?:(?P<one>{ONES[self.language]})|{self._number})\b")

    @cached_property
    def fraction(self) -> re.Pattern[str]:
        """A word for a fraction."""
        return re.compile(rf"\b(?:{FRACTIONS[self.language]})\b", re.IGNORECASE)

    @cached_property
    def idiom(self) -> re.Pattern[str]:
        """A phrase whose number translations need not express."""
        return re.compile(rf"\b(?:{IDIOMS[self.language]})\b")


def _alternatives(words: Iterable[str]) -> str:
    """Return a pattern of words and, with a full stop, whole words."""
    return "|".join(sorted(words, key=len, reverse=True)).replace(".", r"\b")


class _Partial(NamedTuple):
    """The number that successive words form.

    ``total`` is the sum up to the last word such as *thousand*, whose value is ``multiplier``, and ``group``
    the sum after it. Only values below ``bound`` may be added.
    """

    start: int
    end: int
    group: int = 0
    bound: int = 1000
    total: int = 0
    multiplier: int = 10**15

    @property
    def value(self) -> int:
        return self.total + self.group


def _extended(number: _Partial, value: int, language: str) -> _Partial | None:
    """Return a number with one more part, or None if the part begins another number."""
    group = number.group
    if value in MULTIPLIERS:
        if value == number.multiplier or (value < number.multiplier and number.total and not group):
            return None
        if value > number.multiplier:  # as in "mil milhões"
            return number._replace(total=number.value * value, group=0, bound=1000, multiplier=value)
        total = number.total + max(group, 1) * value
        return number._replace(total=total, group=0, bound=1000, multiplier=value)
    if value == 100 and 0 < group < 100:
        return number._replace(group=100 * group, bound=100)
    if language == "fr" and group % 100 == 4 and value == 20:  # quatre-vingts
        return number._replace(group=group + 76, bound=20)
    if value < number.bound:
        return number._replace(group=group + value, bound=_bound(value, language))
    return None


def _bound(value: int, language: str) -> int:
    """Return the bound of the values that may be added to a value; 1 if none may."""
    if value >= 100:
        return 100
    if language == "fr" and value in (10, 60):  # dix-sept, soixante-dix
        return 10 if value == 10 else 20
    return 10 if value >= 20 and value % 10 == 0 and language != "de" else 1


def _numbers(text: str, vocabulary: _Vocabulary, pattern: re.Pattern[str]) -> Iterator[_Partial]:
    """Yield the numbers in a lower-case text; ``pattern`` matches their words."""
    language, values = vocabulary.language, vocabulary.values
    conjunction, number = CONJUNCTIONS.get(language), None
    for match in pattern.finditer(text):
        parts = [values[part] for part in vocabulary.part.findall(match[0])]
        if language == "de":
            parts = _in_order(parts)
        gap = "," if number is None else text[number.end : match.start()]
        is_joined = conjunction is not None and gap.replace("-", " ") == f" {conjunction} "
        if number is not None and not (
            gap in SEPARATORS
            or (is_joined and number.bound in CONJUNCTION_PLACES[language] and max(parts) < number.bound)
        ):
            yield number
            number = None
        for value in parts:
            longer = None if number is None else _extended(number, value, language)
            if longer is None:
                if number is not None:
                    yield number
                longer = _extended(_Partial(match.start(), match.end()), value, language)
            assert longer is not None
            number = longer._replace(end=match.end())
    if number is not None:
        yield number


def _in_order(parts: list[int]) -> list[int]:
    """Return the values of the parts of a German word, with the tens before the ones: *ein-und-zwanzig*."""
    for index in range(1, len(parts) - 1):
        if parts[index] == 0 and parts[index - 1] < 10 and parts[index + 1] in range(20, 100):
            parts[index - 1 : index + 2] = parts[index + 1] + parts[index - 1], 0, 0
    return [value for value in parts if value]


def find_numbers(text: str, language: str) -> list[NumberWords]:
    """Return the numbers from 2 up that a text spells out; *one* is often an article or a pronoun.

    Args:
        text: the text.
        language: the code of its language; in languages without an entry in :data:`NUMBER_WORDS` nothing is
            found.
    """
    vocabulary = _vocabulary(language)
    if vocabulary is None:
        return []
    lowered = _lower(text)
    numbers = list[NumberWords]()
    for number in _numbers(lowered, vocabulary, vocabulary.number):
        span, value = (number.start, number.end), number.value
        if numbers and vocabulary.language == "en" and _is_year(lowered, numbers[-1], span[0], value):
            last = numbers.pop()
            span, parts = (last.span[0], span[1]), (last.value, value)
            numbers.append(NumberWords(span, 100 * last.value + value, True, parts))
        elif value > 1:
            is_bare = value in (100, *MULTIPLIERS) and lowered[slice(*span)] in vocabulary.values
            numbers.append(NumberWords(span, value, not is_bare))
    if not any(number.is_certain for number in numbers):
        return numbers
    idiom_ends = {
        word.start(): idiom.end()
        for idiom in vocabulary.idiom.finditer(lowered)
        for word in vocabulary.number.finditer(lowered, *idiom.span())
    }
    return [
        number._replace(is_certain=False)
        if number.span[1] <= idiom_ends.get(number.span[0], 0) or _is_factor(lowered, number, vocabulary)
        else number
        for number in numbers
    ]


def _is_year(text: str, first: NumberWords, start: int, value: int) -> bool:
    """Return True if a number of two digits follows another one, as in *nineteen eighty-four*."""
    return text[first.span[1] : start] in SEPARATORS and 10 <= first.value < 100 and 10 <= value < 100


def _is_factor(text: str, number: NumberWords, vocabulary: _Vocabulary) -> bool:
    """Return True if a number is the beginning of an ordinal or before a word such as *dozen*.

    Examples are *twenty-second*, *tysiąc dziewięćset osiemdziesiąty* and *two dozen*.
    """
    end = number.span[1]
    separator = text[end : end + 1]
    if separator not in SEPARATORS or vocabulary.number.match(text, end + 1):
        return False
    other = vocabulary.other.match(text, end + 1)
    if separator == "-" or number.value % 100 == 0:
        return bool(other or vocabulary.beginning.match(text, end + 1))
    return other is not None and vocabulary.others[other[0]] >= 10


def possible_numbers(text: str, language: str) -> list[int]:
    """Return the numbers for which words of a text may stand, such as 2 for *both* and 24 for *two dozen*.

    They include ordinals, months and the beginnings of longer words.
    """
    vocabulary = _vocabulary(language)
    if vocabulary is None:
        return []
    text = _lower(text)
    numbers = _numbers(text, vocabulary, vocabulary.beginning)
    words = [(number.start, number.end, number.value) for number in numbers]
    words += [(*word.span(), vocabulary.others[word[0]]) for word in vocabulary.other.finditer(text)]
    values, total, next_start = list[int](), 0, -1
    for start, end, value in sorted(words):
        values.append(value)
        if start == next_start and total and total % 10 ** len(str(value)) == 0:  # as in "twenty-second"
            values.append(total := total + value)
        elif start == next_start and total < 100 and value >= 10:  # as in "two dozen"
            values.append(total := total * value)
        else:
            total = value
        match = WORD_END.match(text, end)
        next_start = match.end() if match else -1
    values += [month.lastindex or 0 for month in vocabulary.month.finditer(text)]
    return values


def has_list(text: str, value: int, language: str) -> bool:
    """Return True if the first numbers after a comma have a sum, as 2 in *people, a man and a woman*.

    Args:
        text: the text, of which the first :data:`MAX_LIST` characters are considered.
        value: the sum.
        language: the code of the language of the text.
    """
    vocabulary = _vocabulary(language)
    items = LIST.match(_lower(text[:MAX_LIST]))
    if vocabulary is None or items is None:
        return False
    total = 0
    for index, word in enumerate(vocabulary.count.finditer(items[1])):
        total += 1 if word["one"] else vocabulary.values.get(word[0], value)
        if total >= value:
            return total == value and index > 0
    return False


def has_number_words(language: str) -> bool:
    """Return True if numbers in words are found in texts of a language, given by its code."""
    return base_language(language) in NUMBER_WORDS


def number_word_pattern(language: str) -> re.Pattern[str]:
    """Return the pattern of number words in texts in lower case; it matches nothing in other languages.

    Args:
        language: the code of the language.
    """
    vocabulary = _vocabulary(language)
    return NO_WORD if vocabulary is None else vocabulary.number


def has_fraction(text: str, language: str) -> bool:
    """Return True if a text has a word for a fraction, such as *half* and *quarter*."""
    vocabulary = _vocabulary(language)
    return vocabulary is not None and vocabulary.fraction.search(text) is not None


def _lower(text: str) -> str:
    """Return a text in lower case, or unchanged if its length would change, so that spans stay valid."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text


def _vocabulary(code: str) -> _Vocabulary | None:
    language = base_language(code)
    return _load_vocabulary(language) if language in NUMBER_WORDS else None


@cache
def _load_vocabulary(language: str) -> _Vocabulary:
    return _Vocabulary(language)

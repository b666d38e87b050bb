"""Splitting into sentences: without loss, in linear time, and by the rules of each language."""

import re
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from uwaga.tokenizers import abbreviations, sentences
from uwaga.tokenizers.sentences import split_sentences

LANGUAGES = [
    *abbreviations.LANGUAGES, *abbreviations.SIMILAR_LANGUAGES, "zh", "ja", "th", "src", "pt_BR", "deu_Latn",
]  # fmt: skip

CASES = {
    "en": """
        A man sleeps. |Two dogs run. |A child laughs.
        Is it you? |It is! |Come in.
        Hello?! |Who is there?
        What?? |Nothing.  |Two spaces stay with the sentence before.
        Mr. Smith and Dr. Jones met Prof. Brown on Mt. Rainier. |They talked.
        She left at 5 p.m. and came back. |He stayed until 6 a.m. |Then he left.
        They live in the U.S. and work for the U.S. Government. |We don't.
        I live in the E.U. |How about you?
        J. R. R. Tolkien and George W. Bush never met. |They could not.
        You and I. |Did you see Albert I. Jones?
        See p. 55, Fig. 3, vol. 2 and No. 7. |Then go on.
        He said no. |I think he lied.
        Fruits, e.g. Apples, i.e. Malus domestica, etc. |They grow here.
        Smith et al. Found nothing. |The U.S. |It is big.
        It costs 3.50 dollars. |That is version 2.1.3. |5 people paid.
        In 1990. |The year after.
        Write to Jane.Doe@example.com. |See https://www.example.com/a.html?b=c.d. |Thanks.
        He wrote "Stop." |She did. |"Go on," he said.
        "Stop!" he said. |'Why?' she asked.
        (He slept.) |[She did not.] |The end.
        He came (it was late. The moon shone) and slept. |She woke.
        The trees (see chapter 2.) |Grow. |They do.
        It ends.[1] |It begins.[2][3] |It goes on.² |It is over.
        Well... that is so. |Well... |That is new. |And … so on.
        Wait . . . |Now.
        The sum 1 + 2 + … + 7 is 28. |Yes!
        What (!) a day. |Some [...] were left out.
        Vitamin C. |It is healthy.
        1. A list. |2. Its second item. |3. The third.
        1. A list 2. without marks 3. at the ends
        • One thing |• Another thing |• A third
        The product a•b is 1•2. |Password: ••••
        Yahoo! is a company. |It is old.
        **Note.** |The text. |*So.*
        The iPhone is new. |iPhones are not.
        That is it. |😀 Next. 🎉
        Roe v. Wade was decided. |It was 1973.
        Don't do that. |It's bad. |"It's fine."
        """,
    "de": """
        Er kommt am 3. Mai. |Sie kommt am 4. Juni, dem 19. Jahrhundert zum Trotz.
        Er ist 25. |Sie ist 30.
        Obst, z. B. Äpfel, z.B. Birnen u. Ä. |Das ist gesund.
        Das war im 1. Jh. v. Chr. in Rom. |Dort lebte er.
        Dr. med. Meyer und Prof. Dr. Schulze, Hauptstr. 5, sind da. |Sie warten.
        Ludwig XIV. Liebte er? |Ja.
        „Ich gehe.“ |„Bleib!“, sagte sie. |„Warum?“ fragte er.
        Brot, Milch usw. |Das ist alles. |Es kostet ca. 5 Mio. Euro. |Im Jahr 1990. |Danach.
        Siehe S. 225 und Nr. 7, Bd. 2. |Dann weiter.
        »Dann gehe ich.« |»Gut.«
        """,
    "fr": """
        M. Dupont et Mme Durand sont là. |Ils parlent.
        Comment ça va ? |Bien ! |Et vous ?
        « Bonjour ! » |Il entra. |« Sortez ! » dit-elle.
        Voir p. 12, art. 5, p. ex. Paris. |C'est tout.
        L'av. Foch, J.-C. Martin et le Dr Petit. |Voilà.
        """,
    "es": """
        ¿Cómo está? |¡Bien! |El Sr. Pérez y la Dra. Ruiz llegaron. |Comieron.
        Los EE. UU. y la UE. |Los EE.UU. |Es así. |Véase la pág. 5, p. ej. Madrid.
        """,
    "it": """
        Salve Sig.ra Rossi! |L'Avv. Bianchi è qui. |Come sta?
        Vedi pag. 5 e art. 7, ad es. Roma. |Ecco. |La S.p.A. Fiat. |È grande.
        """,
    "pt": """
        O Sr. Silva chegou. |A Dra. Costa não. |Ver pág. 3 e n.º 5. |Quero ver. |Depois.
        Pães, bolos, etc. |Tudo pronto.
        """,
    "nl": """
        Dhr. Jansen en mevr. De Vries komen. |Dat is goed. |Zie blz. 5, d.w.z. Amsterdam. |Ja.
        """,
    "pl": """
        Prof. Nowak i dr hab. Kowalska mieszkają przy ul. Długiej. |To daleko.
        Kup chleb, mleko itd. |Potem wróć. |Zob. str. 5, np. Warszawę. |Był rok 1990. |Padało.
        Nie wiem co. |Powiedz im. |To dobrze.
        """,
    "cs": """
        Karel IV. Lucemburský byl král. |Ing. Novák také. |Bylo to 3. května. |Potom ne.
        Viz str. 5, např. Praha atd. |Pak dál.
        """,
    "sk": "Ing. Kováč a MUDr. Nová prišli. |Je to tak. |Napr. Bratislava je na str. 5. |Áno.",
    "da": "Dr. Hansen og fr. Jensen kom, f.eks. Anna. |Det er godt. |Se s. 5. |Ja.",
    "sv": "Dr. Berg och t.ex. Anna kom. |Det är bra. |Se s. 5. |Ja.",
    "ru": """
        А. С. Пушкин жил на ул. Мойка в г. Петербург. |Это так. |Он умер.
        Купи хлеб, молоко и т. д. |Потом приди. |См. стр. 5, т. е. Главу. |Это я. |Он пришёл.
        «Кто там?» – спросил он. |«Я!»
        """,
    "uk": "Т. Г. Шевченко жив у м. Київ на вул. Садовій. |Це так. |Див. стор. 5. |Він помер.",
    "bg": "Г-н Иванов и проф. Петров са тук. |Това е.",
    "el": "Πού είναι; |Εδώ είναι. |Ο κ. Παπάς ήρθε.",
    "hy": "Նա ծնվել է։ |Նա գնաց: |Վերջ։",
    "zh": "他来了。|她走了！|真的吗？|“走吧。”|他说：“好！”|完了……还没有。|我们看《跑吧！兄弟》好吗？|好。",
    "ja": "彼は来た。|彼女は「行こう。」と言った。|本当？！|はい。",
    "ko": "그는 왔다. |그녀는 갔다! |정말?",
    "hi": "वह आया। |वह गई। |डॉ. शर्मा आए। |क्या?",
    "ar": "هل هو هنا؟ |نعم. |قال د. أحمد ذلك. |انتهى!",
    "ur": "وہ آیا۔ |وہ گئی۔ |کیوں؟",
    "th": "เขามาแล้ว เธอไปแล้ว",
    "am": "እሱ መጣ። |እሷ ሄደች።",
    "my": "သူလာတယ်။ |သူမသွားတယ်။",
    "xx": "Dr. Moreau n'est pas là. |J. Smith le sait. |Oui.",
}


def cases():
    return [
        pytest.param(code, line, id=f"{code}-{number}")
        for code, lines in CASES.items()
        for number, line in enumerate(filter(None, map(str.strip, lines.splitlines())))
    ]


@pytest.mark.parametrize(("language", "marked"), cases())
def test_sentences_of_each_language_are_split(language, marked):
    assert split_sentences(marked.replace("|", ""), language) == marked.split("|")


def test_texts_without_capitals_are_split():
    assert split_sentences("hi. how are you? fine, e.g. ok. bye", "en") == [
        "hi. ", "how are you? ", "fine, e.g. ok. ", "bye",
    ]  # fmt: skip
    assert split_sentences("Hi. how are you", "en") == ["Hi. how are you"]


def test_blank_texts_initials_and_bare_punctuation_are_not_split():
    assert split_sentences("", "en") == []
    assert split_sentences("  ", "en") == ["  "]
    assert split_sentences(" A. B.", "en") == [" A. B."]
    assert split_sentences("... ? !", "en") == ["... ? !"]


PIECES = [
    *" .!?…。！？।؟\t\"'()[]«»„“”‘’《》、,;:-–•*1a23é你\u00a0\u2003\u200b\u0301\ud800😀ªIXſİ",
    *("Mr.", "z. B.", "U.S.", "etc.", "No. 5", "The", "die", "II.", "[1]", "1.", "2)", "g. ", "p. "),
]


@settings(max_examples=4 * settings.default.max_examples)
@example("B\u00a0.", "en")
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(), st.sampled_from(LANGUAGES))
def test_split_sentences_join_to_the_original_line(line, language):
    parts = split_sentences(line, language)
    assert "".join(parts) == line
    assert all(parts)
    assert not any(part[:1].isspace() for part in parts[1:])


def count_steps(line, language):
    """Return the number of executed lines of Python plus the number of matched characters."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if frame.f_code.co_filename != sentences.__file__:
            return None
        count += 1
        return trace

    matched = sum(len(match[0]) for match in sentences._end_pattern("").finditer(line))
    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        split_sentences(line, language)
    finally:
        sys.settrace(previous)
    return count + matched


@pytest.mark.parametrize(
    "part",
    [
        '"', "(", "“a. ", ". ", ".", "!) ", "a.", "A. ", "1. ", "。", "。#", "([{", "• ", "Mr. ", " ", "... ",
        "a", "[1]", "(a. B ",
    ],
)  # fmt: skip
def test_sentence_splitting_takes_linear_time(part):
    split_sentences(part, "en")
    single, double = (count_steps(part * count, "en") for count in (400, 800))
    assert double <= 2.02 * single


def unbounded_repeats(tree):
    """Yield the kinds of the unbounded repeats of a parsed pattern."""
    for name, value in tree:
        if str(name).endswith("_REPEAT") and value[1] == re._constants.MAXREPEAT:
            yield str(name)
        for part in value if isinstance(value, (tuple, list)) else ():
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, re._parser.SubPattern):
                    yield from unbounded_repeats(inner)


def test_sentence_patterns_have_no_unbounded_repeats():
    patterns = {
        name: value.pattern for name, value in vars(sentences).items() if isinstance(value, re.Pattern)
    }
    repeats = {name: set(unbounded_repeats(re._parser.parse(pattern))) for name, pattern in patterns.items()}
    assert repeats.pop("ELLIPSIS") == {"POSSESSIVE_REPEAT"}  # of marks that the scanner has read
    assert len(repeats) > 5
    assert not any(repeats.values()), repeats
    assert set(unbounded_repeats(re._parser.parse(sentences._end_pattern("").pattern))) == {
        "POSSESSIVE_REPEAT"
    }


@pytest.mark.parametrize("block", [(0, 0xFF), (0x2000, 0x206F), (0x3000, 0x303F), (0xFF00, 0xFFEF)])
def test_closing_punctuation_belongs_to_its_sentence(block):
    closing = [chr(code) for code in range(*block) if unicodedata.category(chr(code)) in ("Pe", "Pf")]
    assert closing
    for character in closing:
        parts = [f"A man sleeps.{character} ", "A dog runs."]
        assert split_sentences("".join(parts), "en") == parts, ascii(character)


@pytest.mark.parametrize("language", abbreviations.LANGUAGES)
def test_abbreviation_lists_are_normalised(language):
    stops = abbreviations.LANGUAGES[language]
    for abbreviation in stops.abbreviations | stops.starters:
        assert abbreviation == abbreviation.lower()
        assert not abbreviation.endswith(".")
        assert len(abbreviation) < sentences.MAX_ABBREVIATION_CHARACTERS
    assert not stops.starters & {"i.e", "dr", "prof"}

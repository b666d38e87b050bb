"""Substitution of terms for usual translations: ranking of hypotheses, and applied terms."""

from dataclasses import replace

import numpy as np
import pytest

from uwaga import Request, Translator
from uwaga.engine.shortlist import Shortlist
from uwaga.results.translation import Hypothesis, TermUse, WordAlignment
from uwaga.terms import Glossary, Term
from uwaga.terms.apply import TermFinder
from uwaga.translator.layers.terms import TermSentence, _spans
from uwaga.translator.text import Sentence

BUNDLED = Translator.load()
SYNONYMS = (
    ("The car is very fast.", "car", "Wagen", "Auto"),
    ("She saw a dog in the house.", "dog", "Vierbeiner", "Hund"),
    ("She saw a dog in the house.", "house", "Gebäude", "Haus"),
    ("A man in a blue shirt is standing on a ladder.", "man", "Herr", "Mann"),
    ("A man in a blue shirt is standing on a ladder.", "ladder", "Stehleiter", "Leiter"),
    ("Two children are playing with a ball.", "ball", "Spielball", "Ball"),
    ("A woman is riding a bicycle through the city.", "bicycle", "Drahtesel", "Fahrrad"),
    ("A woman is riding a bicycle through the city.", "woman", "Dame", "Frau"),
    ("A girl sits on a bench and reads a book.", "book", "Taschenbuch", "Buch"),
    ("A girl sits on a bench and reads a book.", "bench", "Sitzbank", "Bank"),
    ("The boy throws a stone into the river.", "river", "Strom", "Fluss"),
    ("Many people are waiting for the bus.", "bus", "Omnibus", "Bus"),
)


def words(text):
    return "".join(letter if letter.isalnum() else " " for letter in text).split()


def sentence_terms(source, glossary):
    terms = tuple(Term(word, (target,), "here") for word, target in glossary.items())
    finder = TermFinder(Glossary(terms), BUNDLED.target, BUNDLED.decoder.vocabulary)
    return finder.find_terms(source)


def hypothesis(text, truncated=False):
    tokens = tuple(BUNDLED.target.encode(text))
    return Hypothesis(tokens, -1.0, -1.0, (-1.0,) * (len(tokens) + 1), truncated)


def term_sentence(source, usual, glossary, replaced):
    terms = replace(sentence_terms(source, glossary), usual_translation=usual, replaced=tuple(replaced))
    spans = [
        None if word is None else (usual.index(word), usual.index(word) + len(word)) for word in replaced
    ]
    sentence = Sentence(
        (1,), text=source, lacks_final_punctuation=source[-1].isalnum(), hypotheses=[hypothesis(usual)]
    )
    return TermSentence(sentence, terms, usual, spans)


@pytest.mark.parametrize("beam", [1, 5])
def test_M27_forced_terms_replace_only_the_usual_words(beam):
    for source, word, term, usual in SYNONYMS:
        plain = BUNDLED.translate(source, beam=beam).text
        assert usual in words(plain), plain
        translation = BUNDLED.translate(source, glossary={word: term}, beam=beam)
        text = translation.text
        assert words(text).count(term) == 1 and usual not in words(text), text
        assert translation.terms == (TermUse(word, term, True),)
        assert text.count(".") == 1 and text.endswith(".")
        lost = {part[:3] for part in words(plain) if len(part) > 3 and part != usual}
        assert lost <= {part[:3] for part in words(text)}, text


def test_M27_soft_terms_are_applied_in_most_sentences():
    used = [
        BUNDLED.translate(source, glossary={word: term}, glossary_mode="soft").terms[0].applied
        for source, word, term, _ in SYNONYMS
    ]
    assert sum(used) >= 0.8 * len(used)


@pytest.mark.parametrize("mode", ["forced", "soft"])
def test_M27_term_that_contains_the_usual_word_replaces_it(mode):
    """The usual word is replaced even though the term contains it."""
    for source, word, term in (
        ("The car is very fast.", "car", "Auto Wagen"),
        ("A man is sitting on a bench.", "bench", "Bank Platz"),
    ):
        plain = BUNDLED.translate(source).text
        usual = term.split()[0]
        assert usual in words(plain)
        translation = BUNDLED.translate(source, glossary={word: term}, glossary_mode=mode)
        assert translation.text.count(term) == 1
        assert words(translation.text).count(usual) == 1
        assert translation.terms[0].applied


def test_M27_term_next_to_the_usual_word_does_not_count_as_applied():
    terms = replace(
        sentence_terms("The car is fast.", {"car": "Wagen"}),
        usual_translation="Das Auto ist schnell.",
        replaced=("Auto",),
    )
    for text, applied in (
        ("Der Wagen ist schnell.", True),
        ("Der Wagen Auto ist schnell.", False),
        ("Der Wagen des Autos ist schnell.", False),
        ("Das Auto ist schnell.", False),
    ):
        assert [use.applied for use in terms.find_uses(BUNDLED.target.encode(text), text)] == [applied]


def test_M27_usual_word_is_kept_where_it_translates_another_word():
    usual = "Das Auto und das Auto sind schnell."
    terms = replace(
        sentence_terms("The car and the auto are fast.", {"car": "Wagen"}),
        usual_translation=usual,
        replaced=("Auto",),
    )
    text = "Der Wagen und das Auto sind schnell."
    assert terms.find_uses(BUNDLED.target.encode(text), text)[0].applied
    text = "Der Wagen, das Auto und das Auto sind schnell."
    assert not terms.find_uses(BUNDLED.target.encode(text), text)[0].applied


def test_M27_term_that_begins_the_translation_may_be_capitalised():
    terms = sentence_terms("He is fast.", {"fast": "flott"})
    assert terms.forms == (("flott",),)
    for text, applied in (("Flott ist er.", True), ("Er ist flott.", True), ("Er ist Flott.", False)):
        assert [use.applied for use in terms.find_uses((), text)] == [applied]


SUBSTITUTION_CASES = (
    ("Add the shoes to your cart.", "Adicione os sapatos ao seu carrinho.", "cart", "carrinho de compras"),
    ("Delete your account.", "Excluir sua conta.", "account", "cadastro"),
    ("Delete account", "Excluir conta", "account", "cadastro"),
)


@pytest.mark.parametrize(
    ("case", "text", "errors"),
    [
        (0, "Adicione os sapatos ao seu carrinho de compras.", (0, 0)),
        (0, "Adicione o carrinho de compras ao seu carrinho.", (0, 2)),
        (0, "Adicione os sapatos ao seu carrinho.", (1, 1)),
        (0, "Adicione os sapatos ao seu carrinho de compras. , , ,", (0, 1)),
        (0, "Adicione os sapatos ao seu carrinho de compras e carrinho de compras.", (0, 1)),
        (1, "Exclua o seu cadastro.", (0, 0)), (1, "Excluir sua cadastro. exclua a sua.", (0, 1)),
        (1, "Excluir sua conta cadastro.", (0, 1)), (1, "Excluir o seu cadastro pessoal.", (0, 0)),
        (1, "O seu cadastro.", (0, 1)), (2, "Excluir cadastro", (0, 0)), (2, "Excluir cadastro.", (0, 0)),
        (2, "Excluir cadastro (-a)", (0, 1)),
    ],
)  # fmt: skip
def test_M27_missing_terms_and_other_changes_count_as_errors(case, text, errors):
    source, usual, word, target = SUBSTITUTION_CASES[case]
    replaced = "carrinho" if case == 0 else "conta"
    judge = term_sentence(source, usual, {word: target}, [replaced])
    assert judge.count_errors(hypothesis(text), text) == errors
    missing, others = errors
    assert judge.count_errors(hypothesis(text, truncated=True), text) in (
        (missing, others),
        (missing, others + 1),
    )


def test_M27_term_without_an_alignment_may_replace_only_one_word():
    """Without an alignment, the term may replace any single word."""
    judge = term_sentence("Delete your account.", "Excluir sua conta.", {"account": "cadastro"}, [None])
    for text, errors in (("Excluir seu cadastro.", (0, 0)), ("Seu cadastro.", (0, 1))):
        assert judge.count_errors(hypothesis(text), text) == errors


@pytest.mark.parametrize(
    ("source", "target", "links", "term", "expected"),
    [
        ("Your inbox", "Sua caixa de entrada", {(0, 0): 1.0, (1, 1): 1.0, (1, 3): 1.0}, "inbox",
         "caixa de entrada"),
        ("Your inbox", "Sua caixa de entrada", {(0, 0): 1.0, (1, 1): 1.0, (1, 3): 0.3}, "inbox", "caixa"),
        ("the browser", "o seu navegador", {(1, 1): 1.0, (1, 2): 1.0}, "browser", "navegador"),
        ("Your password", "Ihrem Passwort", {(1, 0): 0.9, (1, 1): 0.9}, "password", "Passwort"),
        ("credit card", "cartão de crédito", {(0, 2): 1.0, (1, 0): 1.0, (1, 1): 0.9}, "credit card",
         "cartão de crédito"),
    ],
)  # fmt: skip
def test_M27_usual_translations_of_terms_are_found_by_alignment(source, target, links, term, expected):
    def spans(text):
        starts = [0, *(index + 1 for index, letter in enumerate(text) if letter == " ")]
        return tuple((start, start + len(word)) for start, word in zip(starts, text.split(), strict=True))

    terms = sentence_terms(source, {term: "x"})
    alignment = WordAlignment(
        spans(source), spans(target), tuple(links), tuple((*pair, chance) for pair, chance in links.items())
    )
    [span] = _spans(target, alignment, terms.matches)
    assert target[slice(*span)] == expected


def test_M27_terms_outside_the_shortlist_are_applied():
    """A shortlist without a term's tokens changes neither its use nor the end of the sentence."""
    plain = [BUNDLED.translate(source).text for source, *_ in SYNONYMS]
    tokens = sorted({token for text in plain for token in BUNDLED.target.encode(text)})
    vocabulary = BUNDLED.decoder.vocabulary
    empty = np.zeros(0, dtype=np.int32)
    first = np.zeros(BUNDLED.decoder.source_vocabulary + 1, dtype=np.int32)
    shortlist = Shortlist(np.array(tokens, dtype=np.int32), first, empty, vocabulary)
    model = BUNDLED.models[0]
    shortlisted = Translator(replace(model, decoder=BUNDLED.decoder.with_shortlist(shortlist), scorer=None))
    assert [shortlisted.translate(source).text for source, *_ in SYNONYMS] == plain
    translations = []
    for source, word, term, usual in SYNONYMS:
        assert not set(BUNDLED.target.encode(term)) <= set(tokens)
        translations.append(shortlisted.translate(source, glossary={word: term}))
        text = translations[-1].text
        assert words(text).count(term) == 1 and usual not in words(text), text
        assert text.count(".") == 1 and text.endswith("."), text
    assert translations == [
        *shortlisted.run(Request(source, glossary={word: term}) for source, word, term, _ in SYNONYMS)
    ]

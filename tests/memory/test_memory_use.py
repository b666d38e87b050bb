"""Translation with a memory: exact matches, retrieved states, and reported matches."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import uwaga
from uwaga.alignment.words import split_words
from uwaga.cli.main import main
from uwaga.errors import DataError, SettingsError
from uwaga.markup.inline import Tag, cut_inline
from uwaga.search import search
from uwaga.translator.layers import terms
from uwaga.translator.memories import TextContext
from uwaga.translator.repair import adapt_target, split_tokens
from uwaga.translator.request import Request
from uwaga_memory.store import Memory, Pair

CAR, CAR_IN_GERMAN = "I want to buy a car.", "Ich möchte mir einen Wagen zulegen."
PAIRS = [
    Pair(CAR, CAR_IN_GERMAN, "letters"),
    Pair("Open {file} with version 2.", "Öffnen Sie bitte {file} mit Version 2.", "help"),
    Pair("A man in a red shirt is sleeping.", "Ein Herr im roten Hemd schlummert.", "letters"),
    Pair("Press <b>Start</b> to begin.", "Zum Beginnen <b>Start</b> drücken.", "help"),
    Pair("Delete {count} files now.", "Jetzt löschen.", "help"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "memory.uwm"
    memory = Memory.create(path, "en", "de")
    memory.add(PAIRS)
    memory.close()
    return path


def used(translation: uwaga.Translation) -> list[tuple[str, str]]:
    return [(use.used, use.origin) for use in translation.memory]


def test_exact_match_returns_the_stored_translation(translator, path):
    result = translator.translate(CAR, memory=path)
    assert (result.text, used(result)) == (CAR_IN_GERMAN, [("verbatim", "letters")])
    assert result.memory[0].score == 100
    assert result.to_dict()["memory"] == [
        {
            "source": CAR, "target": CAR_IN_GERMAN, "score": 100.0, "used": "verbatim", "origin": "letters",
            "created": result.memory[0].created,
        }
    ]  # fmt: skip
    assert json.loads(result.to_json())["memory"][0]["used"] == "verbatim"


def test_match_with_an_equal_context_has_score_101(translator, tmp_path):
    memory = Memory.create(tmp_path / "context.uwm", "en", "de")
    memory.add([Pair("Open", "Öffnen", key="menu.open"), Pair("Open", "Geöffnet", key="state.open")])
    texts = [Request("Open", memory=memory, context=TextContext(key)) for key in ("menu.open", "state.open")]
    results = list(translator.run(texts))
    assert [(result.text, result.memory[0].score) for result in results] == [
        ("Öffnen", 101.0),
        ("Geöffnet", 101.0),
    ]


def test_numbers_and_placeholders_of_a_match_are_replaced_by_those_of_the_text(translator, path):
    result = translator.translate("Open {name} with version 3.", memory=path)
    assert result.text == "Öffnen Sie bitte {name} mit Version 3."
    assert used(result) == [("fitted", "help")]
    assert 75 <= result.memory[0].score < 100


def test_decoder_states_of_a_similar_text_are_retrieved(translator, path):
    text = "A man in a red shirt is singing."
    result = translator.translate(text, memory=path)
    assert result.text.startswith("Ein Herr im roten Hemd ")
    assert result.text != PAIRS[2].target
    assert used(result) == [("retrieved", "letters")]


def test_searches_with_terms_also_retrieve_decoder_states(translator, path, monkeypatch):
    searched = []

    def recording_search(decoder, sentences, options):
        searched.extend(sentences)
        return search(decoder, sentences, options)

    monkeypatch.setattr(terms, "search", recording_search)
    text, glossary = "A man in a red shirt is singing.", {"singing": "jodelt"}
    result = translator.translate(text, memory=path, glossary=glossary)
    assert "jodelt" in result.text
    assert result.text.startswith("Ein Herr im roten Hemd ")
    assert searched and all(sentence.datastore is not None for sentence in searched)


@pytest.mark.parametrize(
    ("text", "glossary", "expected"),
    [
        (CAR, {"car": "Wagen", "buy": "kaufen"}, [("buy", "kaufen", False), ("car", "Wagen", True)]),
        ("Open {name} with version 3.", {"version": "Fassung", "name": "x"}, [("version", "Fassung", False)]),
        (
            f"It is late. {CAR}",
            {"late": "spät", "car": "Auto|Kfz"},
            [("late", "spät", True), ("car", "Auto", False)],
        ),
        (CAR, {"cars": "Autos"}, []),
    ],
)
def test_terms_that_a_translation_from_memory_lacks_are_reported(translator, path, text, glossary, expected):
    result = translator.translate(text, memory=path, glossary=glossary)
    plain = translator.translate(text, memory=path)
    assert [(use.source, use.target, use.applied) for use in result.terms] == expected
    assert list(result.warnings) == [
        f"the term {source!r} was not translated as {target!r}"
        for source, target, applied in expected
        if not applied
    ]
    assert (result.text, used(result)) == (plain.text, used(plain)) and not plain.warnings


def test_terms_are_found_in_a_text_with_tags_that_is_translated_from_memory(translator, path):
    text, glossary = PAIRS[3].source, {"Start to begin": "Beginnen", "b": "c"}
    result = translator.translate(text, memory=path, glossary=glossary, format="html")
    assert result.text == PAIRS[3].target
    assert [(use.source, use.applied) for use in result.terms] == [("Start to begin", True)]


def test_memory_does_not_change_translations_of_texts_without_matches(translator, path):
    texts = ["The weather is nice today.", "Numbers: 1, 2 {x}", "", "  ", "…"]
    plain, remembered = translator.translate(texts), translator.translate(texts, memory=path)
    assert [result.text for result in remembered] == [result.text for result in plain]
    assert not any(result.memory for result in remembered)


def test_pairs_below_the_threshold_are_not_used(translator, path):
    text = "Open {name} with version 3."
    assert not translator.translate(text, memory=path, threshold=100).memory
    assert translator.translate(CAR, memory=path, threshold=100).text == CAR_IN_GERMAN


def test_tags_of_a_text_translated_from_memory_are_kept(translator, path):
    result = translator.translate("Press <b>Start</b> to begin.", memory=path, format="html")
    assert (result.text, used(result)) == (PAIRS[3].target, [("verbatim", "help")])
    page = f"<p>{CAR}</p><p>The weather is nice.</p>"
    result = translator.translate(page, memory=path, format="html")
    assert result.text.startswith(f"<p>{CAR_IN_GERMAN}</p><p>")
    assert used(result) == [("verbatim", "letters")]


def test_pair_that_lacks_placeholders_of_the_text_is_not_used_verbatim(translator, path):
    result = translator.translate(PAIRS[4].source, memory=path)
    assert "{count}" in result.text
    assert result.text != PAIRS[4].target
    assert "verbatim" not in dict(used(result))


def test_outer_white_space_does_not_affect_memory_matches(translator, path):
    assert translator.translate(f"  {CAR}\t", memory=path).text == CAR_IN_GERMAN


def test_prefix_given_by_the_user_takes_precedence_over_memory(translator, path):
    result = translator.translate(CAR, memory=path, prefix="Ich will")
    assert result.text.startswith("Ich will")
    assert not result.memory


def test_memory_translations_do_not_depend_on_the_batch(translator, path):
    texts = [CAR, "A man in a red shirt is singing.", "Open {name} with version 3.", "Two dogs run."]
    together = translator.translate(texts, memory=path)
    assert [result.text for result in together] == [
        translator.translate(text, memory=path).text for text in texts
    ]


def test_any_object_with_a_matches_method_can_be_used_as_a_memory(translator):
    @dataclass
    class Match:
        source: str
        target: str
        score: float = 100.0
        origin: str = "list"
        created: str = ""

    class ListedMemory:
        def matches(self, text: str, context=None, *, threshold: float, limit: int) -> list[Match]:
            return [Match(text, "Hallo!")]

    assert translator.translate(CAR, memory=ListedMemory()).text == "Hallo!"
    with pytest.raises(SettingsError, match="memory must be the path of a translation memory"):
        translator.translate(CAR, memory=7)
    with pytest.raises(DataError, match=r"nothing\.uwm"):
        translator.translate(CAR, memory="nothing.uwm")
    with pytest.raises(SettingsError, match="threshold"):
        translator.translate(CAR, memory=ListedMemory(), threshold=0)


@pytest.mark.parametrize("text", ["It is late. {}", "{} It is late.", "It is late.\n\n{} It is late. {}"])
def test_each_sentence_of_a_text_is_looked_up(translator, path, text):
    late = translator.translate("It is late.").text
    result = translator.translate(text.replace("{}", CAR), memory=path)
    assert result.text == text.replace("It is late.", late).replace("{}", CAR_IN_GERMAN)
    assert used(result) == [("verbatim", "letters")] * text.count("{}")


def test_sentence_from_memory_does_not_change_results_of_other_sentences(translator, path):
    others = ["The man carries near and school small garden large sees.", "The bank refused the spring loan."]
    options = {"coverage": "unaligned", "alignment": True}
    results = translator.translate(others, **options)
    text = f" {others[0]}\n{CAR} {others[1]}"
    joined = translator.translate(text, **options, memory=path)
    assert used(joined) == [("verbatim", "letters")]
    assert joined.words == (*results[0].words, *results[1].words)
    omitted = joined.coverage.omitted
    assert omitted == (*results[0].coverage.omitted, *results[1].coverage.omitted) and "sees" in omitted
    assert [text[start:end] for start, end in joined.coverage.omitted_spans] == list(omitted)

    def links(result: uwaga.Translation) -> list[tuple[str, str]]:
        source, target = result.alignment.source, result.alignment.target
        pairs = [(source[first], target[second]) for first, second in result.alignment.links]
        return [(result.source[slice(*left)], result.text[slice(*right)]) for left, right in pairs]

    assert links(joined) == links(results[0]) + links(results[1])
    assert [text[slice(*span)] for span in joined.alignment.source] == split_words(text)
    assert [joined.text[slice(*span)] for span in joined.alignment.target] == split_words(joined.text)
    assert translator.translate(text, memory=path).alignment is None


def test_sentences_joined_by_a_tag_pair_are_not_looked_up(translator, path):
    for text in (f"<i>It is late. {CAR}</i> It is late.", f"<i>It is late. {CAR[:6]}</i>{CAR[6:]}"):
        plain = translator.translate(text, format="html")
        result = translator.translate(text, format="html", memory=path, threshold=90)
        assert (result.text, result.memory) == (plain.text, ())
    whole = translator.translate(f"<p><i>It is late.</i> {CAR}", format="html", memory=path)
    assert whole.text.endswith(f" {CAR_IN_GERMAN}")


def test_inline_texts_are_cut_at_text_positions_outside_tag_pairs():
    start, end, line = Tag("open", "<b>"), Tag("close", "</b>"), Tag("void", "<br>")
    inline = ("One. ", start, "Two.", end, " Three", line, ".")
    assert cut_inline(inline, [5]) == [("One. ",), inline[1:]]
    assert cut_inline(inline, [5, 10]) == [("One. ",), (*inline[1:4], " "), ("Three", line, ".")]
    assert cut_inline(inline, [9]) == [inline[:4], inline[4:]]
    assert cut_inline(inline, [7]) is None  # between the tags of a pair
    assert cut_inline(("A ", Tag("kept", "<i/>", "name")), [4]) is None
    assert cut_inline(("ab",), []) == [("ab",)]


def test_last_confirmed_translation_is_used(translator, tmp_path):
    path = tmp_path / "new.uwm"
    memory = Memory.create(path, "en", "de-DE")
    for target in ("Ein Auto will ich.", "Einen Wagen will ich.", "Ein Auto will ich."):
        translator.confirm(CAR, target, memory=path, origin="me")
        assert translator.translate(CAR, memory=path).text == target
    assert len(memory) == 2
    state = TextContext(key="state.open")
    translator.confirm("Open", "Offen", memory=memory, context=state)
    translator.confirm("Open", "Öffnen", memory=memory, context=TextContext(key="menu.open"))
    [result] = translator.run([Request("Open", memory=memory, context=state)])
    assert (result.text, result.memory[0].score) == ("Offen", 101.0)


def test_invalid_confirmations_are_refused(translator, path, tmp_path):
    class ReadOnlyMemory:
        def matches(self, text, context=None, *, threshold, limit):
            return []

    with pytest.raises(SettingsError, match=r"pairs cannot be added to .*: it has no method confirm\(\)"):
        translator.confirm(CAR, CAR_IN_GERMAN, memory=ReadOnlyMemory())
    with pytest.raises(DataError, match=r"not added: no translation"):
        translator.confirm(CAR, " ", memory=path)
    Memory.create(tmp_path / "other.uwm", "en", "pt").close()
    for use in (translator.translate, lambda text, memory: translator.confirm(text, text, memory=memory)):
        with pytest.raises(SettingsError, match="from en to pt, but the model translates from en to de"):
            use(CAR, memory=tmp_path / "other.uwm")


def test_async_translator_confirms_translations(translator, tmp_path):
    path = tmp_path / "new.uwm"
    Memory.create(path, "en", "de").close()

    async def confirm() -> str:
        async with uwaga.AsyncTranslator(translator) as shared:
            await shared.confirm(CAR, CAR_IN_GERMAN, memory=path)
            return (await shared.translate(CAR, memory=path)).text

    assert asyncio.run(confirm()) == CAR_IN_GERMAN


def test_command_line_reports_match_counts_by_score(path, tmp_path, capsys, monkeypatch):
    lines = [CAR, "Open {name} with version 3.", "The weather is nice today."]
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(*arguments: str) -> tuple[str, str]:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        assert not stopped.value.code
        return capsys.readouterr()

    options = ("--memory", str(path), "--threshold", "70")
    out, err = run("translate", "--input", str(source), *options)
    assert out.splitlines()[:2] == [CAR_IN_GERMAN, "Öffnen Sie bitte {name} mit Version 3."]
    assert "memory: 100 %: 1, " in err
    assert "none: 1 (1 verbatim, 1 fitted)" in err
    out, err = run("translate-file", str(source), str(target), *options)
    assert target.read_text(encoding="utf-8").splitlines()[0] == CAR_IN_GERMAN
    assert "none: 1 (1 verbatim, 1 fitted)" in err
    out, _ = run("translate", "--json", *options, CAR)
    assert json.loads(out)["memory"][0]["score"] == 100.0
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("buy\tkaufen\n", encoding="utf-8")
    for command in (
        ("translate", "--input", str(source)),
        ("translate-file", "--force", str(source), str(target)),
    ):
        _, err = run(*command, *options, "--glossary", str(glossary))
        assert "the term 'buy' was not translated as 'kaufen'" in err


@pytest.mark.parametrize(
    ("text", "source", "target", "expected"),
    [
        ("Add :meth:`one` twice.", "Add :meth:`two` twice.", "Füge :meth:`two` zweimal an.",
         "Füge :meth:`one` zweimal an."),
        ("internet access", "Internet Access", "Zugang", "Zugang"),
        ("The old house", "The new house", "Das neue Haus", None),
        ("Use 3 apples", "Use 2 apples", "Nimm 2 von 2 Äpfeln", None),
        ("Use 3 or 4", "Use 2 or 2", "Nimm 2 oder 2", None),
        ("a " * 300, "a " * 299, "x", None),
    ],
)  # fmt: skip
def test_fitting_a_match_replaces_differing_numbers_and_placeholders(text, source, target, expected):
    assert adapt_target([*split_tokens(text, None)], source, target, None) == expected


@pytest.mark.parametrize("make", [lambda n: "1 a " * n, lambda n: "a b " * n, lambda n: "<b>" * n])
def test_fitting_a_match_to_a_long_text_takes_limited_time(make: Callable[[int], str]):
    import time

    started = time.perf_counter()
    adapt_target([*split_tokens(make(20_000), None)], make(19_999), "x " * 20_000, None)
    assert time.perf_counter() - started < 5

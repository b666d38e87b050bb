"""M42: translations with a draft, and of a text that grows, are those without one."""

import asyncio
from dataclasses import replace

import pytest

from uwaga import AsyncTranslator, Translator
from uwaga.checkpoints.formats.uwaga.shortlist import write_shortlist
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES
from uwaga.conversion.shortlist import learn_shortlist
from uwaga.errors import ModelError, SettingsError
from uwaga.results.translation import DraftUse

TEXTS = [
    "The children play in the garden.",
    "She reads a book. He writes a letter! Who sings?",
    "A dog runs.\nA cat sleeps on the old chair.",
    "Press <b>Start</b> and wait for {name}.",
    "",
]


@pytest.fixture(scope="module")
def translator():
    return Translator.load()


def test_M42_a_draft_leaves_translations_as_they_are(translator):
    plain = translator.translate(TEXTS, beam=1, split="sentences")
    right = [one.text for one in plain]
    for draft in ("Die Kinder spielen im Garten.", "Nous n'avons rien.\n\n!", "", right):
        drafted = translator.translate(TEXTS, beam=1, split="sentences", draft=draft)
        assert [replace(one, draft=None) for one in drafted] == plain
    assert drafted[1].draft.proposed == drafted[1].draft.accepted > 0
    assert drafted[1].draft.passes < len(plain[1].token_scores)
    assert translator.shared().translate(TEXTS, beam=1, split="sentences", draft=draft) == drafted


def test_M42_a_text_that_grows_is_translated_as_a_whole_in_fewer_passes(translator):
    words = ["The", "committee", "has", "agreed", "that", "the", "new", "rules", "will", "apply", "."]
    previous, passes, tokens = "", 0, 0
    for end in range(1, len(words) + 1):
        text = " ".join(words[:end])
        made = translator.retranslate(text, previous)
        assert replace(made, draft=None) == translator.translate(text, beam=1)
        passes += made.draft.passes if made.draft else len(made.token_scores)
        tokens += len(made.token_scores)
        previous = made
    assert passes < tokens / 2
    assert made.without_last(0) == made.text
    assert made.without_last(2) == " ".join(made.text.split()[:-2])
    assert made.without_last(99) == ""


def test_M42_a_bias_keeps_what_is_shown(translator):
    shown = translator.translate("The house is small", beam=1).text
    kept = translator.retranslate("The house is small and old.", shown, bias=0.49)
    assert kept.text.startswith(shown.rstrip("."))
    longer = "The house is small and old. It is cold."
    free = translator.translate(longer, beam=1, split="sentences")
    wrong = "Das Haus ist gross und alt. Es ist warm"
    for mask, start in ((0, wrong), (1, "Das Haus ist gross und alt. Es ist "), (6, "Das Haus "), (9, "")):
        kept = translator.retranslate(longer, wrong, bias=0.4999, mask=mask, split="sentences")
        assert kept.text.startswith(start)
        assert mask < 9 or replace(kept, draft=None) == free


def test_M42_streams_and_tasks_take_drafts_too(translator):
    text, draft = "The children play in the garden.", "Die Kinder spielen in einem Haus."
    plain = translator.translate(text, beam=1).text
    assert "".join(translator.stream(text, draft=draft)) == plain
    kept = translator.retranslate(text, draft, bias=0.49, mask=1)
    assert "".join(translator.stream(text, draft=draft, bias=0.49, mask=1)) == kept.text

    async def retranslated():
        async with AsyncTranslator(translator) as shared:
            return await shared.retranslate(text, draft, bias=0.49, mask=1)

    assert asyncio.run(retranslated()) == kept


def test_M42_what_cannot_be_a_draft_is_refused_by_name(translator):
    def refused(**options):
        with pytest.raises(SettingsError) as error:
            translator.translate("A dog runs.", **options)
        return str(error.value)

    assert "set beam to 1" in refused(draft="Ein Hund", beam=4)
    assert "bias must be from 0 to below 0.5, not 0.7" in refused(draft="Ein Hund", bias=0.7)
    assert "draft must be text, or one for each text, not 3" in refused(draft=3)
    assert "2 drafts for 1 texts" in refused(draft=["Ein", "Hund"])
    with pytest.raises(SettingsError, match="mask"):
        translator.retranslate("A dog", "Ein", mask=-1)


@pytest.fixture(scope="module")
def listed(translator, tmp_path_factory):
    """A file of a shortlist, and the pairs that it was counted from."""
    pairs = [(text, one.text) for text, one in zip(TEXTS[:2], translator.translate(TEXTS[:2]), strict=True)]
    counted = learn_shortlist(translator, pairs, frequent=40, per_word=8)
    path = tmp_path_factory.mktemp("drafts") / "list"
    write_shortlist(path, counted.shortlist, translator.source, translator.target, counted.pairs)
    return path


def other(translator, **changes):
    """The same model with other settings of its own."""
    return Translator(replace(translator.model, **changes))


def test_M42_a_draft_model_leaves_greedy_translations_as_they_are(translator, listed):
    plain = translator.translate(TEXTS, beam=1)
    loaded = Translator.load(draft="bundled"), Translator.load(draft="shortlist", shortlist=listed)
    for drafted in (*loaded, loaded[0].shared(), loaded[1].shared(), translator.drafted_by(loaded[1])):
        made = [drafted.translate(text) for text in TEXTS]
        assert [replace(one, draft=None) for one in made] == plain
        assert made[3].draft.proposed > 0  # of a text with tags and a placeholder
        assert "".join(drafted.stream(TEXTS[1])) == plain[1].text
    use = made[0].draft
    assert use.share_accepted == use.accepted / use.proposed
    assert use.share_saved == pytest.approx(1 - use.passes / len(plain[0].token_scores))
    assert made[0].to_dict()["draft"] == {
        **use._asdict(),
        "share_accepted": round(use.share_accepted, 6),
        "share_saved": round(use.share_saved, 6),
    }
    assert (DraftUse(0, 0, 5).share_accepted, DraftUse(0, 0, 5).share_saved) == (0, 0)


def test_M42_many_sentences_are_not_drafted_by_a_shortlist(translator, listed):
    drafted = Translator.load(draft="shortlist", shortlist=listed)
    made = drafted.translate([f"Here are {number} dogs." for number in range(9)])
    assert all(one.draft is None for one in made)


def test_M42_a_draft_model_that_cannot_be_is_refused_by_name(translator):
    stated = other(translator, languages=("en", "fr"), known=None)
    with pytest.raises(SettingsError, match="does not translate from en to de: choose another"):
        translator.drafted_by(stated)
    unstated = other(translator, languages=UNSTATED_LANGUAGES, known=None)
    assert translator.drafted_by(unstated).translate(TEXTS[0]).draft.accepted > 0
    drafted = translator.drafted_by(translator)
    for options in ({"beam": 4}, {"sample": True}, {"mbr": 4}):
        with pytest.raises(SettingsError, match="a draft model needs greedy search"):
            drafted.translate(TEXTS[0], **options)
    with pytest.raises(SettingsError, match="draft shortlist needs the native engine and a shortlist"):
        Translator.load(draft="shortlist")
    with pytest.raises(ModelError, match="nowhere"):
        Translator.load(draft="./nowhere")

"""Drafts and retranslation of growing texts do not change translations (M42)."""

import asyncio
from dataclasses import replace

import pytest
from pivot_models import with_changes

from uwaga import AsyncTranslator, Translator
from uwaga.checkpoints.formats.uwaga.shortlist import write_shortlist
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES
from uwaga.conversion.shortlist import learn_shortlist
from uwaga.errors import ModelError, SettingsError
from uwaga.results.translation import DraftUse

TEXTS = [
    "The children play in the garden.", "She reads a book. He writes a letter! Who sings?",
    "A dog runs.\nA cat sleeps on the old chair.", "Press <b>Start</b> and wait for {name}.", "",
]  # fmt: skip


def test_M42_draft_does_not_change_translations(translator):
    plain = translator.translate(TEXTS, beam=1, split="sentences")
    texts = [translation.text for translation in plain]
    for draft in ("Die Kinder spielen im Garten.", "Nous n'avons rien.\n\n!", "", texts):
        drafted = translator.translate(TEXTS, beam=1, split="sentences", draft=draft)
        assert [replace(translation, draft=None) for translation in drafted] == plain
    assert drafted[1].draft.proposed == drafted[1].draft.accepted > 0
    assert drafted[1].draft.passes < len(plain[1].token_scores)
    assert translator.shared().translate(TEXTS, beam=1, split="sentences", draft=draft) == drafted


def test_M42_drafts_for_a_growing_text_save_decoder_passes(translator):
    words = ["The", "committee", "has", "agreed", "that", "the", "new", "rules", "will", "apply", "."]
    previous, passes, tokens = "", 0, 0
    for end in range(1, len(words) + 1):
        text = " ".join(words[:end])
        translation = translator.retranslate(text, previous)
        assert replace(translation, draft=None) == translator.translate(text, beam=1)
        passes += translation.draft.passes if translation.draft else len(translation.token_scores)
        tokens += len(translation.token_scores)
        previous = translation
    assert passes < tokens / 2
    assert translation.without_last(0) == translation.text
    assert translation.without_last(2) == " ".join(translation.text.split()[:-2])
    assert translation.without_last(99) == ""


def test_M42_bias_preserves_the_previous_translation(translator):
    previous = translator.translate("The house is small", beam=1).text
    biased = translator.retranslate("The house is small and old.", previous, bias=0.49)
    assert biased.text.startswith(previous.rstrip("."))
    longer = "The house is small and old. It is cold."
    unbiased = translator.translate(longer, beam=1, split="sentences")
    draft = "Das Haus ist gross und alt. Es ist warm"
    for mask, start in ((0, draft), (1, "Das Haus ist gross und alt. Es ist "), (6, "Das Haus "), (9, "")):
        biased = translator.retranslate(longer, draft, bias=0.4999, mask=mask, split="sentences")
        assert biased.text.startswith(start)
        assert mask < 9 or replace(biased, draft=None) == unbiased


def test_M42_streams_and_async_translators_accept_drafts(translator):
    text, draft = "The children play in the garden.", "Die Kinder spielen in einem Haus."
    plain = translator.translate(text, beam=1).text
    assert "".join(translator.stream(text, draft=draft)) == plain
    biased = translator.retranslate(text, draft, bias=0.49, mask=1)
    assert "".join(translator.stream(text, draft=draft, bias=0.49, mask=1)) == biased.text

    async def retranslated():
        async with AsyncTranslator(translator) as shared:
            return await shared.retranslate(text, draft, bias=0.49, mask=1)

    assert asyncio.run(retranslated()) == biased


def test_M42_invalid_draft_options_are_rejected(translator):
    def error_message(**options):
        with pytest.raises(SettingsError) as error:
            translator.translate("A dog runs.", **options)
        return str(error.value)

    assert "set beam to 1" in error_message(draft="Ein Hund", beam=4)
    assert "bias must be at least 0 and less than 0.5, not 0.7" in error_message(draft="Ein Hund", bias=0.7)
    assert "draft must be a string, or one for each text, not 3" in error_message(draft=3)
    assert "2 drafts for 1 texts" in error_message(draft=["Ein", "Hund"])
    with pytest.raises(SettingsError, match="mask"):
        translator.retranslate("A dog", "Ein", mask=-1)


@pytest.fixture(scope="module")
def shortlist_path(translator, tmp_path_factory):
    """Return the path of a shortlist learned from translations."""
    pairs = [
        (text, translation.text)
        for text, translation in zip(TEXTS[:2], translator.translate(TEXTS[:2]), strict=True)
    ]
    counted = learn_shortlist(translator, pairs, frequent=40, per_word=8)
    path = tmp_path_factory.mktemp("drafts") / "list"
    write_shortlist(path, counted.shortlist, translator.source, translator.target, counted.pairs)
    return path


def test_M42_draft_model_does_not_change_greedy_translations(translator, shortlist_path):
    plain = translator.translate(TEXTS, beam=1)
    loaded = Translator.load(draft="bundled"), Translator.load(draft="shortlist", shortlist=shortlist_path)
    for drafted in (*loaded, loaded[0].shared(), loaded[1].shared(), translator.with_drafter(loaded[1])):
        translations = [drafted.translate(text) for text in TEXTS]
        assert [replace(translation, draft=None) for translation in translations] == plain
        assert translations[3].draft.proposed > 0  # the text has tags and a placeholder
        assert "".join(drafted.stream(TEXTS[1])) == plain[1].text
    use = translations[0].draft
    assert use.share_accepted == use.accepted / use.proposed
    assert use.share_saved == pytest.approx(1 - use.passes / len(plain[0].token_scores))
    assert translations[0].to_dict()["draft"] == {
        **use._asdict(),
        "share_accepted": round(use.share_accepted, 6),
        "share_saved": round(use.share_saved, 6),
    }
    assert (DraftUse(0, 0, 5).share_accepted, DraftUse(0, 0, 5).share_saved) == (0, 0)


def test_M42_drafting_with_a_shortlist_is_skipped_for_many_sentences(translator, shortlist_path):
    drafted = Translator.load(draft="shortlist", shortlist=shortlist_path)
    translations = drafted.translate([f"Here are {number} dogs." for number in range(9)])
    assert all(translation.draft is None for translation in translations)


def test_M42_incompatible_draft_models_are_rejected(translator):
    mismatched = with_changes(translator, languages=("en", "fr"), known=None)
    with pytest.raises(SettingsError, match="does not translate from en to de: choose another"):
        translator.with_drafter(mismatched)
    unspecified = with_changes(translator, languages=UNSTATED_LANGUAGES, known=None)
    assert translator.with_drafter(unspecified).translate(TEXTS[0]).draft.accepted > 0
    drafted = translator.with_drafter(translator)
    for options in ({"beam": 4}, {"sample": True}, {"mbr": 4}):
        with pytest.raises(SettingsError, match="a draft model needs greedy search"):
            drafted.translate(TEXTS[0], **options)
    with pytest.raises(SettingsError, match="draft 'shortlist' needs the native engine and a shortlist"):
        Translator.load(draft="shortlist")
    with pytest.raises(ModelError, match="nowhere"):
        Translator.load(draft="./nowhere")

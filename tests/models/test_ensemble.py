"""Ensembles, and saving, loading, translating with and training of recurrent models."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
import torch
from command_line import run_uwaga
from json_files import edited
from precision import tolerance
from recurrent_variants import VARIANTS, make
from search_inputs import inputs
from torch_models import load_torch
from toy import toy_values, write_reversal_corpus

from uwaga.checkpoints.formats.uwaga.folder import FolderContents, save_model
from uwaga.decoder import Choice, Symbols
from uwaga.errors import ModelError, SettingsError
from uwaga.models.build import build_model
from uwaga.models.ensemble import Ensemble
from uwaga.models.layers.choose import choose as torch_choose
from uwaga.models.transformer import Transformer
from uwaga.search import SearchOptions, choose, search
from uwaga.settings import Settings, TransformerSettings, parse
from uwaga.settings.recurrent import BahdanauSettings, LuongSettings
from uwaga.training.train import train
from uwaga.translator import Translator

SOURCES = [[5, 6, 7, 8, 2], [9, 10, 2]]
JOINT = tiny.tokeniser()
RNN = BahdanauSettings(embedding=16, hidden=16, read_out=16, tie="all", max_length=30)


def transformer(vocabulary: int = 23) -> Transformer:
    settings = TransformerSettings(
        encoder_layers=1, decoder_layers=1, width=8, heads=2, feed_forward=8, max_length=40, tie="none"
    )
    return Transformer(settings, Symbols(start=1, end=2, pad=0, unknown=3), 23, vocabulary).eval()


@pytest.mark.numerical
def test_all_tokens_option_returns_log_probs_in_vocabulary_order() -> None:
    logits = torch.randn(3, 7)
    expected = torch.log_softmax(logits, dim=1).numpy()
    for tokens, log_probs in (
        choose(logits.numpy(), Choice(1, all_tokens=True)),
        torch_choose(logits.clone(), Choice(1, all_tokens=True)),
    ):
        assert (tokens == np.arange(7)).all() and tokens.shape == (3, 7)
        np.testing.assert_allclose(log_probs, expected, **tolerance(expected))


@pytest.mark.numerical
def test_ensemble_averages_probabilities_at_every_step() -> None:
    members = [make(VARIANTS["bahdanau"]), transformer(), make(VARIANTS["sutskever"])]
    target = torch.tensor([[1, 11, 12, 13], [1, 14, 15, 16]])
    padded = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
    with torch.no_grad():
        mean = torch.stack([member(padded, target) for member in members]).exp().mean(0).log()
    ensemble = Ensemble(members)
    state = ensemble.start(ensemble.encode(SOURCES), 2)
    for position in range(4):
        step = ensemble.step(np.repeat(target[:, position].numpy(), 2), state, Choice(23, attention=True))
        log_probs = np.empty_like(step.log_probs)
        np.put_along_axis(log_probs, step.tokens, step.log_probs, axis=1)
        expected = mean[:, position].repeat_interleave(2, 0).numpy()
        np.testing.assert_allclose(log_probs, expected, **tolerance(expected))
        assert step.attention is not None  # of the two that have attention
        np.testing.assert_allclose(step.attention.sum(1), 1.0, **tolerance(1.0))
        state = step.state
    assert (ensemble.max_source, ensemble.max_target) == (32, 32)


@pytest.mark.numerical
def test_ensemble_of_identical_members_matches_a_single_model() -> None:
    model = make(VARIANTS["luong"])
    options = SearchOptions(beam=4, nbest=4, max_length=6, max_ratio=math.inf)
    expected = search(model, inputs(SOURCES), options)
    actual = search(Ensemble([model, model]), inputs(SOURCES), options)
    for expected_hypotheses, hypotheses in zip(expected, actual, strict=True):
        assert [result.tokens for result in expected_hypotheses] == [result.tokens for result in hypotheses]
        assert [h.score for h in expected_hypotheses] == pytest.approx(
            [h.score for h in hypotheses], abs=1e-5
        )


def test_ensemble_members_must_share_a_vocabulary() -> None:
    with pytest.raises(SettingsError, match=r"small has a vocabulary of 22 .*big has one of 23"):
        Ensemble([transformer(), transformer(22)], ["big", "small"])
    with pytest.raises(SettingsError, match="two models or more, not 1"):
        Ensemble([transformer()])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders of an RNN and a Transformer with equal tokenisers, and an RNN with another."""
    root = tmp_path_factory.mktemp("ensemble")
    other = tiny.tokeniser(size=330)
    for name, settings, tokeniser in (
        ("rnn", RNN, JOINT),
        ("transformer", tiny.TINY, JOINT),
        ("alien", RNN, other),
    ):
        model = build_model(settings, tokeniser.symbols, tokeniser.size, tokeniser.size)
        contents = FolderContents(settings, tiny.DECODING, tokeniser, tokeniser, ("en", "de"), "card")
        save_model(root / name, model, contents)
    return {name: root / name for name in ("rnn", "transformer", "alien")}


def test_translator_and_command_line_accept_several_models(folders: dict[str, Path]) -> None:
    names = [folders["rnn"], folders["transformer"]]
    ensemble = Translator.load(names, device="cpu")
    assert isinstance(ensemble.decoder, Ensemble)
    text, reference = "The dog.", "Der Hund."
    translation = ensemble.translate(text, attention=True)
    assert (
        translation.attention is not None
        and len(translation.source_tokens) + 1 == translation.attention.shape[1]
    )
    (scored,) = ensemble.score([(text, reference)])
    member_scores = [Translator.load(name, device="cpu").score([(text, reference)])[0] for name in names]
    expected = np.logaddexp(member_scores[0].token_scores, member_scores[1].token_scores) - math.log(2)
    np.testing.assert_allclose(scored.token_scores, expected, atol=1e-4)
    flags = [part for name in names for part in ("--model", str(name))]
    result = run_uwaga("translate", *flags, "--json", "--device", "cpu", text)
    assert json.loads(result.stdout)["text"] == translation.text
    single = Translator.load([folders["rnn"]], device="cpu")
    assert not isinstance(single.decoder, Ensemble)


def test_ensemble_members_with_different_tokenisers_are_rejected(folders: dict[str, Path]) -> None:
    with pytest.raises(SettingsError, match=r"alien: its source tokeniser differs from that of .*rnn"):
        Translator.load([folders["rnn"], folders["alien"]], device="cpu")


@pytest.mark.parametrize("name", list(VARIANTS))
def test_saving_and_loading_does_not_change_models_of_any_recurrent_family(name: str, tmp_path: Path) -> None:
    settings = VARIANTS[name]
    model = build_model(settings, JOINT.symbols, JOINT.size, JOINT.size).eval()
    tiny.save(tmp_path / "m", model, JOINT)
    loaded = load_torch(tmp_path / "m")
    assert loaded.checkpoint.settings == settings
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 9, 10]])
    with torch.no_grad():
        assert loaded.model(source, target).equal(model(source, target))


def test_config_with_sizes_that_do_not_match_the_weights_is_rejected(folders, tmp_path) -> None:
    for key, value in (("hidden", 5000), ("hidden", 17), ("embedding", 100_000)):
        folder = tmp_path / f"{key}{value}"
        folder.mkdir()
        for file in folders["rnn"].iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        with edited(folder / "config.json") as config:
            config["model"] |= {key: value, "tie": "none" if key == "embedding" else "all"}
        with pytest.raises(ModelError, match="different models"):
            load_torch(folder)


def test_family_setting_selects_the_model_to_train(tmp_path: Path) -> None:
    write_reversal_corpus(tmp_path, pairs=100)
    text = tmp_path / "train.tsv"
    for name, precision in (("bahdanau", "float32"), ("luong", "bfloat16")):
        values = toy_values(tmp_path, steps=4, validate_every=4, save_every=2, precision=precision)
        family = {"bahdanau": BahdanauSettings, "luong": LuongSettings}[name]
        small = {"embedding": 16, "hidden": 16, "dropout": 0.2, "variational": True}
        values |= {"model": {"family": name, **small}, "run": str(tmp_path / name)}
        settings = parse(Settings, values, "toy")
        assert isinstance(settings.model, family)
        folder = train(settings)
        assert folder is not None
        before = (folder / "model.safetensors").read_bytes()
        assert train(settings) == folder  # resumes at the end and averages the same checkpoints
        assert (folder / "model.safetensors").read_bytes() == before
        translation = Translator.load(folder, device="cpu").translate(text.read_text().split("\t")[0])
        assert np.isfinite(translation.score)

"""Adapters trained on a memory: kept only if they improve translations of held-out pairs."""

import random
from pathlib import Path

import pytest
from command_line import run_uwaga
from toy import Stop, toy_settings, write_reversal_corpus

import uwaga
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.training.train import train
from uwaga_memory import Memory, Pair
from uwaga_memory.adapting import HELD_OUT_DIVISOR, adapt, is_held_out

QUICK_SETTINGS = (
    "training.device=cpu", "training.threads=1", "training.batch_tokens=400", "training.save_every=2",
)  # fmt: skip
INEFFECTIVE_SETTINGS = (*QUICK_SETTINGS, "training.steps=1", "training.schedule.peak=1e-9")
SOURCES = 600


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base")
    write_reversal_corpus(folder)
    trained = train(toy_settings(folder, steps=20))
    return str(trained)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    letters = random.Random(1)
    sources = ["".join(letters.choices("abcdefghijkl", k=letters.randint(2, 5))) for _ in range(SOURCES)]
    memory = Memory.create(tmp_path / "toy.uwm", "abc", "cba")
    memory.add(Pair(source, source[::-1]) for source in sources)
    return memory


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_held_out_sources_are_chosen_deterministically():
    sources = [f"sentence {number}" for number in range(4_000)]
    held_out = [source for source in sources if is_held_out(source)]
    assert 0.8 < len(held_out) * HELD_OUT_DIVISOR / len(sources) < 1.2
    assert all(is_held_out(f"  {source.replace(' ', '  ')}\n") for source in held_out)


def test_adapter_is_kept_only_if_it_improves_the_scores(memory, model, tmp_path):
    folder = tmp_path / "adapter"
    scores = adapt(memory, folder, model, (*QUICK_SETTINGS, "training.steps=60"))
    assert scores.is_better and scores.new > scores.base and scores.previous is None
    assert scores.sources == sum(map(is_held_out, {pair.source for _, pair in memory.pairs()}))
    assert str(scores) in (folder / "card.md").read_text(encoding="utf-8")
    assert uwaga.load(adapter=folder).translate("abc").text
    before = contents(folder)
    repeated = adapt(memory, folder, None, INEFFECTIVE_SETTINGS)  # the adapter names its model
    assert (repeated.base, repeated.previous) == (scores.base, scores.new)
    assert not repeated.is_better and contents(folder) == before
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"adapter"}


def test_adapt_command_prints_scores_and_discards_an_ineffective_adapter(memory, model, tmp_path):
    changes = [argument for change in INEFFECTIVE_SETTINGS for argument in ("--set", change)]
    command = ["memory", "adapt", memory.path, tmp_path / "adapter", "--model", model, *changes]
    output = run_uwaga(*command, code=3).stdout
    assert "adapter: not kept: chrF " in output and "with the new one, on " in output
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_interrupted_adaptation_resumes_with_the_same_pairs(memory, model, tmp_path, monkeypatch):
    changes = (*QUICK_SETTINGS, "training.steps=6")
    folder, work = tmp_path / "adapter", tmp_path / ".adapter.adapting"
    monkeypatch.setattr("uwaga_memory.adapting.AdaptationScores.is_better", True)
    adapt(memory, tmp_path / "uninterrupted", model, changes)
    with monkeypatch.context() as patch:
        patch.setattr("uwaga.training.train.Interrupt", Stop)
        patch.setattr(Stop, "after", 4)
        assert adapt(memory, folder, model, changes) is None
    pairs = (work / "pairs.tsv").read_bytes()
    assert not any(is_held_out(line.partition("\t")[0]) for line in pairs.decode().splitlines())
    memory.add([Pair("abcabc", "cbacba")])
    with pytest.raises(SettingsError, match=r"set\.0 = .*delete .*\.adapter\.adapting"):
        adapt(memory, folder, model, ("training.seed=2", *changes[1:]))
    assert (work / "pairs.tsv").read_bytes() == pairs and not folder.exists()
    assert adapt(memory, folder, model, changes) is not None
    assert contents(folder) == contents(tmp_path / "uninterrupted")
    assert not work.exists()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (["training.step=1"], SettingsError, r"--set.*training\.step"),
        (["run=elsewhere"], SettingsError, "arguments of the command"),
        (["adapt.lora=null"], SettingsError, "adapt.lora is required"),
    ],
)
def test_invalid_adaptation_settings_leave_no_files(memory, model, tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        adapt(memory, tmp_path / "adapter", model, changes)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_adapting_to_a_memory_requires_matching_languages_and_enough_pairs(memory, model, tmp_path):
    small = Memory.create(tmp_path / "small.uwm", "abc", "cba")
    small.add(Pair(f"a {number}", "b") for number in range(40))
    with pytest.raises(
        DataError, match=r"small\.uwm: only \d of its 40 sources would be held out .* about 200"
    ):
        adapt(small, tmp_path / "adapter", model)
    with pytest.raises(SettingsError, match="abc"):
        adapt(memory, tmp_path / "adapter", "bundled")
    (tmp_path / "adapter").mkdir()
    with pytest.raises(ModelError, match="not an adapter"):
        adapt(memory, tmp_path / "adapter", model)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["adapter"]

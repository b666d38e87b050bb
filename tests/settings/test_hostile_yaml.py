"""Hostile YAML: limits of size, depth and time, and short messages."""

import time
from pathlib import Path

import pytest

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.formats.marian.files import find_files, read_decoding
from uwaga.errors import SettingsError, UwagaError, quoted
from uwaga.settings import change_setting, load_settings, read_yaml
from uwaga.settings.yaml_text import load_yaml

BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [" + ", ".join([f"*{chr(97 + i)}"] * 9) + "]\n" for i in range(20)
)
HOSTILE_TEXTS = {
    "bomb": BOMB,
    "alias": "a: &x 1\nb: *x",
    "tagged number": 'a: !!int ""',
    "tagged truth": "a: !!bool x",
    "tagged date": "a: !!timestamp x",
    "no date": "a: 2025-99-99",
    "digits": "a: " + "9" * 5000,
    "sixties": "a: " + "1:" * 5000 + "1",
    "hexadecimal": "a: 0x" + "f" * 5000,
    "object": "a: !!python/object/apply:os.system [ls]",
    "deep": "a: " + "[" * 5000,
    "deep and closed": "a: " + "[" * 500 + "]" * 500,
    "deep block": "\n".join(" " * n + "a:" for n in range(400)),
    "large": "a: " + "x" * (1 << 19),
    "key": "? [1]\n: 2",
    "binary": "a: !!binary é",
    "pairs": "a: !!pairs [1]",
    "merge": "<<: 1",
    "NUL": "a: \0",
}


@pytest.mark.parametrize("name", HOSTILE_TEXTS)
def test_hostile_yaml_is_rejected_quickly(name, tmp_path):
    text, start = HOSTILE_TEXTS[name], time.process_time()
    with pytest.raises(ValueError, match=r"."):
        load_yaml(text)
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SettingsError, match="not valid YAML"):
        load_settings(tmp_path / "s.yaml")
    with pytest.raises(SettingsError) as caught:
        change_setting({}, f"training.seed={text}")
    assert len(str(caught.value)) < 1000
    (tmp_path / "card.md").write_text(f"---\nlicense: mit\n{text}\n---\n")
    assert read_card(tmp_path).licence is None
    (tmp_path / "model.npz").touch()
    (tmp_path / "decoder.yml").write_text(text)
    with pytest.raises(UwagaError, match=r"decoder\.yml"):
        read_decoding(find_files(tmp_path / "model.npz"))
    assert time.process_time() - start < 10


def test_values_in_error_messages_are_truncated(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "run: x\ndata: {train: [a]}\ntraining: {seed: " + "y" * 100_000 + "}\n" + "z" * 900 + ": 1"
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert len(str(caught.value)) < 1000
    assert len(quoted([10**9000])) < 100
    assert len(quoted({"a": "b" * 10**6})) < 100


def test_valid_yaml_is_read(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("a: 1e-4\nb: [yes, 2024-01-02, ~]\nc: {d: 'é', <<: {e: 1}}\n")
    values = read_yaml(path)
    assert values["a"] == 1e-4
    assert values["b"][0] is True
    assert values["c"] == {"d": "é", "e": 1}


@pytest.mark.parametrize("value", ["1e308", ".inf", ".nan", "1e309"])
def test_huge_max_ratio_is_accepted_and_a_non_finite_one_is_rejected(value, tmp_path):
    from uwaga.search.options import options_from_settings
    from uwaga.settings import DecodingSettings, parse

    path = tmp_path / "s.yaml"
    path.write_text(f"max_ratio: {value}")
    if value != "1e308":
        with pytest.raises(SettingsError, match="max_ratio"):
            parse(DecodingSettings, read_yaml(path), str(path))
        return
    options, _ = options_from_settings(parse(DecodingSettings, read_yaml(path), str(path)))
    import uwaga

    translator = uwaga.load(Path(__file__).parents[1] / "support" / "models" / "numbers-en-de")
    assert translator.translate("twenty one", max_ratio=options.max_ratio).text

"""Training settings: invalid values, files and changes, the template, and the recipes."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.settings import Settings, StrictModel, change_setting, load_settings, parse, read_yaml
from uwaga.training.template import settings_template, write_template

MINIMAL = {"run": "r", "data": {"train": ["a.tsv"], "dev": ["b.tsv"]}}


def error_of(**values: object) -> str:
    with pytest.raises(SettingsError) as raised:
        parse(Settings, MINIMAL | values, "my.yaml")
    return str(raised.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trainning": {}}, "my.yaml: unknown setting 'trainning'; did you mean 'training'?"),
        ({"training": {"stepz": 3}}, "unknown setting 'training.stepz'; did you mean 'steps'?"),
        ({"training": {"schedule": {"warm": 3}}},
         "unknown setting 'training.schedule.warm'; did you mean 'warmup'?"),
        ({"text": {"zzz": 3}}, "unknown setting 'text.zzz'; the settings here are kind, size, joint"),
        ({"data": {"train": ["a"]}}, "setting 'data.dev' is missing"),
        ({"training": {"steps": 0}}, "training.steps: should be greater than 0 (found 0)"),
        ({"training": {"precision": "float8"}},
         "training.precision: should be 'float32', 'bfloat16' or 'float64'"),
        ({"model": {"width": 30, "heads": 4}}, "width 30 is not a multiple of heads 4"),
        ({"data": MINIMAL["data"] | {"languages": ["english", "de"]}},
         "'english' is a name; write the code, 'en'"),
        ({"data": MINIMAL["data"] | {"languages": ["en", "Deutsch"]}},
         "'Deutsch' is a name; write the code, 'de'"),
        ({"model": {"width": 3, "heads": 1}}, "sinusoidal positions need an even width, not 3"),
        ({"model": {"positions": "relative", "self_attention": "ssru"}},
         "relative positions require self_attention: attention, not ssru"),
        ({"model": [1, 2]}, "model: should be a valid dictionary"),
    ],
)  # fmt: skip
def test_invalid_settings_are_reported(values: dict[str, object], message: str) -> None:
    error = error_of(**values)
    assert message in error
    assert "Input" not in error and "{'" not in error  # pydantic's words


def test_length_of_error_messages_is_limited() -> None:
    unknown = {"q" * 100 + str(number): number for number in range(1000)}
    message = error_of(model=unknown | {"family": "transformer"}, **unknown)
    assert len(message) < 4000
    assert message.endswith("; and 1995 more problems")


@given(st.text(min_size=1, max_size=12))
def test_unknown_keys_are_reported(key: str) -> None:
    if key not in Settings.model_fields:
        assert repr(key) in error_of(**{key: 1})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1", "not valid YAML"),
        ("- 1\n- 2", "expected a mapping of settings, found list"),
        ("", "expected a mapping of settings, found NoneType"),
        ("a: !!python/object/apply:os.system [echo]", "not valid YAML"),
        ("[" * 20_000, "not valid YAML"),
        ("\x00\x01", "not valid YAML"),
    ],
)
def test_invalid_files_are_reported(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(content)
    with pytest.raises(SettingsError, match=rf"s\.yaml: {message}"):
        load_settings(path)


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"b\.yaml: cannot be read"):
        load_settings(tmp_path / "b.yaml")
    with pytest.raises(SettingsError, match=r"c\.yaml: no such settings file; `uwaga train --init"):
        load_settings(tmp_path / "c.yaml")


def test_scientific_notation_is_read_as_a_number(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("run: r\ndata: {train: [a], dev: [b]}\ntraining: {schedule: {peak: 5e-3}}\n")
    assert load_settings(path).training.schedule.peak == 5e-3


@pytest.mark.parametrize("value", ["2", "1e-4", "true", "null", "[a.tsv, b.tsv]", "{x: 1}", "runs/a=b", ""])
def test_values_given_as_changes_are_parsed_like_settings_files(tmp_path: Path, value: str) -> None:
    (tmp_path / "s.yaml").write_text(f"one: 1\ngroup:\n  inner:\n    key: {value}\n")
    values: dict[str, object] = {"one": 1, "group": {"inner": {"key": "before"}}}
    change_setting(values, f"group.inner.key={value}")
    created: dict[str, object] = {"one": 1}
    change_setting(created, f"group.inner.key={value}")
    assert values == created == read_yaml(tmp_path / "s.yaml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("steps", "expected KEY=VALUE"),
        ("=2", "expected KEY=VALUE"),
        ("one.two=2", "one holds a value, not a group"),
        ("one=[", "is not a YAML value"),
    ],
)
def test_invalid_setting_changes_are_reported(change: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        change_setting({"one": 1}, change)


def test_existing_settings_file_is_not_overwritten_by_a_template(tmp_path: Path) -> None:
    write_template(tmp_path / "new.yaml")
    assert (tmp_path / "new.yaml").read_text() == settings_template()
    with pytest.raises(SettingsError, match="already exists"):
        write_template(tmp_path / "new.yaml")
    with pytest.raises(SettingsError, match="cannot be written"):
        write_template(tmp_path / "no" / "new.yaml")


def test_template_has_all_settings_and_defaults(tmp_path: Path) -> None:
    text = settings_template()
    path = tmp_path / "t.yaml"
    path.write_text(text)
    settings = load_settings(path)
    expected = parse(
        Settings,
        {
            "run": "runs/my-model",
            "data": {"train": ["train.src.txt", "train.tgt.txt"], "dev": ["dev.src.txt", "dev.tgt.txt"]},
        },
        "expected",
    )
    assert settings == expected

    def check_names(kind: type[StrictModel], values: dict[str, object]) -> None:
        assert set(values) == set(kind.model_fields)
        for name, field in kind.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, StrictModel):
                check_names(inner, values[name])  # type: ignore[arg-type]

    check_names(Settings, yaml.safe_load(text))


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "recipes").rglob("*.yaml")), ids=str)
def test_recipes_are_valid(path: Path) -> None:
    load_settings(path)

"""Model settings by preset and family: valid and invalid values, changes and templates."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from uwaga.errors import SettingsError
from uwaga.models.layers.scores import SCORES
from uwaga.settings import MODEL_PRESETS, Settings, TransformerSettings, change_setting, load_settings, parse
from uwaga.settings.recurrent import (
    PRESETS,
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)
from uwaga.training.changes import fixed_settings
from uwaga.training.template import template_settings, write_template

RECIPES = Path(__file__).parents[2] / "recipes"


def settings(model: Any) -> Settings:
    return parse(Settings, {"run": "r", "data": {"train": ["a"], "dev": ["b"]}, "model": model}, "my.yaml")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cho", ChoSettings), ("sutskever", SutskeverSettings), ("bahdanau", BahdanauSettings),
        ("luong", LuongSettings), ("luong-local-p", LuongSettings), ("luong_local_p", LuongSettings),
        ("gnmt-small", GnmtSettings), ("transformer", TransformerSettings),
    ],
)  # fmt: skip
def test_preset_name_selects_the_model_family(name: str, kind: type) -> None:
    assert type(settings(name).model) is kind


def test_presets_have_the_published_sizes() -> None:
    """Cho 2014 §4.1.1, Sutskever 2014 §3.4, Bahdanau 2014 §A.2.3, Luong 2015 §4.1, Wu 2016 §3."""
    models = {name: settings(name).model for name in PRESETS}
    assert (models["cho"].hidden, models["cho"].embedding, models["cho"].read_out) == (1000, 100, 500)
    assert (models["sutskever"].layers, models["sutskever"].hidden) == (4, 1000) and models[
        "sutskever"
    ].reverse
    assert (models["bahdanau"].hidden, models["bahdanau"].embedding, models["bahdanau"].read_out) == (
        1000,
        620,
        500,
    )
    assert (models["luong"].layers, models["luong"].hidden, models["luong"].dropout) == (4, 1000, 0.2)
    assert (models["luong-local-p"].attention, models["luong-local-p"].window) == ("local-p", 10)
    assert (models["gnmt"].encoder_layers, models["gnmt"].decoder_layers, models["gnmt"].hidden) == (
        8,
        8,
        1024,
    )


def test_model_family_defaults_to_the_transformer() -> None:
    model = settings({"family": "luong", "hidden": 64, "score": "concat"}).model
    assert isinstance(model, LuongSettings) and (model.hidden, model.score) == (64, "concat")
    assert settings({"width": 256}).model == TransformerSettings(width=256)


@pytest.mark.parametrize("name", list(PRESETS))
def test_presets_survive_a_round_trip(name: str) -> None:
    original = settings(name)
    reparsed = parse(Settings, yaml.safe_load(yaml.safe_dump(original.model_dump(mode="json"))), "my.yaml")
    assert reparsed == original


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("bahdanow", "model: .*'bahdanow'; did you mean 'bahdanau'"),
        ({"family": "luon"}, "model.family: .*'luon'; did you mean 'luong'"),
        ({"family": "luong", "hiden": 3}, "'model.hiden'; did you mean 'hidden'"),
        ({"widht": 3}, "'model.widht'; did you mean 'width'"),
        ({"family": "gnmt", "hidden": "x"}, "my.yaml: model.hidden: .*'x'"),
        ({"family": "bahdanau", "reverse": True}, "unknown setting 'model.reverse'"),
        ({"family": "bahdanau", "score": "dot"}, "score dot .*use general"),
        ({"family": "luong", "bidirectional": True}, "already reads in both directions; set reverse: false"),
        ({"family": "luong", "attention": "local-m"}, "local-m needs a window"),
        ({"family": "luong", "window": 3}, "window 3 is for local attention"),
        ({"family": "luong", "attention": "lokal"}, "model.attention"),
        ({"family": "cho", "tie": "all"}, "tie all .*width 100 .*width 500"),
        ({"family": "gnmt", "encoder_layers": 1}, "model.encoder_layers"),
        (7, "my.yaml: model"),
    ],
)
def test_invalid_model_settings_are_rejected(model: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings(model)


def test_no_two_presets_have_the_same_fixed_settings() -> None:
    prints = {str(fixed_settings(settings(name))) for name in ("transformer", *PRESETS)}
    assert len(prints) == 1 + len(PRESETS)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_recipes_are_valid(path: Path) -> None:
    load_settings(path)


def test_each_preset_has_a_recipe() -> None:
    recipe_names = {f"multi30k-{name}.yaml" for name in PRESETS if not name.endswith("-small")}
    assert recipe_names <= {path.name for path in RECIPES.glob("*.yaml")}
    for name in recipe_names:
        model = load_settings(RECIPES / name).model
        assert model == PRESETS[name.removeprefix("multi30k-").removesuffix(".yaml") + "-small"]()


def test_preset_values_can_be_changed() -> None:
    base = PRESETS["luong-small"]().model_dump()
    assert settings({"preset": "luong-small", "score": "dot"}).model.model_dump() == base | {"score": "dot"}
    assert settings({"preset": "small", "width": 128}).model == settings(
        "transformer-small"
    ).model.model_copy(update={"width": 128})
    assert settings({"preset": "gnmt", "family": "gnmt"}).model == GnmtSettings()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"preset": "luong-smal"}, "'luong-smal'; did you mean 'luong-small'"),
        ({"preset": "luong-small", "scor": "dot"}, "unknown setting 'model.scor'; did you mean 'score'"),
        ({"preset": "luong-small", "family": "gnmt"}, "'luong-small' is of family luong, not 'gnmt'"),
        ({"preset": 7}, "preset must be a name, not 7"),
        ("zzzz", "the presets are transformer, transformer-small"),
    ],
)
def test_invalid_changes_to_presets_are_reported(model: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings(model)


def test_settings_of_a_preset_can_be_changed_by_key() -> None:
    values: dict[str, Any] = {"model": "luong-small", "run": "r"}
    change_setting(values, "model.score=dot")
    change_setting(values, "model.layers=2")
    assert values["model"] == {"preset": "luong-small", "score": "dot", "layers": 2}
    change_setting(values, "model=gnmt")
    assert values["model"] == "gnmt"
    with pytest.raises(SettingsError, match="run holds a value"):
        change_setting(values, "run.score=dot")


@pytest.mark.parametrize("name", list(MODEL_PRESETS))
def test_settings_template_of_a_preset_explains_all_settings(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.yaml"
    write_template(path, name, ["data.languages=[en, de]"])
    written_settings = load_settings(path)
    assert written_settings.model == MODEL_PRESETS[name]() and written_settings.data.languages == ("en", "de")
    assert written_settings.training == template_settings(name).training
    lines = path.read_text().splitlines()
    keys = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    unexplained = [line for line in keys if "  # " not in line and not line.endswith(":")]
    assert unexplained == []
    assert any(line.startswith("  family: ") for line in keys)


def test_template_lists_registered_attention_scores() -> None:
    described = LuongSettings.model_fields["score"].description or ""
    # Without scores registered by samples.
    score_names = [name for name, kind in SCORES.items() if kind.__module__.startswith("uwaga.")]
    assert score_names
    assert [name for name in score_names if f"{name}, " not in described] == [], described

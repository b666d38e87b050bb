"""Model folders that name an attention score."""

import json

import pytest
import tiny_models as tiny
from torch_models import load_torch

from uwaga.errors import ModelError
from uwaga.models.build import build_model
from uwaga.settings import LuongSettings


def test_unknown_attention_score_is_rejected(tmp_path):
    joint = tiny.tokeniser()
    settings = LuongSettings(embedding=8, hidden=8, layers=1, score="dot")
    model = build_model(settings, joint.symbols, joint.size, joint.size)
    tiny.save(tmp_path / "m", model, joint)
    assert load_torch(tmp_path / "m").checkpoint.settings == settings
    path = tmp_path / "m" / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"model": settings.model_dump() | {"score": "dott"}})
    )
    with pytest.raises(ModelError, match=r"config\.json: model\.score: .*'dott'; did you mean 'dot'"):
        load_torch(tmp_path / "m")

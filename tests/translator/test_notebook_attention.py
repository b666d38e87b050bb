"""Notebook views of all attention matrices (``attention="all"``), on the engine and in torch."""

import json
import re

import attention_samples as samples
import pytest
import tiny_models as tiny

import uwaga
from uwaga.results.attention import Attentions
from uwaga.translator import AttendedText


def views_by_kind(html: str) -> dict[str, dict]:
    [value] = re.findall(r"attentionView\(root, (\{.*\})\);", html)
    return {kind["kind"]: kind for kind in json.loads(value)["kinds"]}


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_translation_view_contains_every_attention_matrix(engine, tmp_path):
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    tiny.save(tmp_path / "model", model, joint)
    translator = uwaga.load(tmp_path / "model", device="cpu", engine=engine)
    for text in ("Where is the station?", "The dog sees the cat. Where is the station?"):
        translation = translator.translate(text, attention="all", split="sentences", entropy=True)
        views = views_by_kind(translation._repr_html_())
        assert set(views) == {"cross", "encoder", "decoder"}
        for name, kind in views.items():
            shape = (kind["layers"], kind["heads"], len(kind["rows"]), len(kind["columns"]))
            assert shape == getattr(translation.attentions, name).shape


def test_attended_text_view_shows_its_attention():
    tokens = samples.pieces(5)
    encoder = samples.attentions(2, 3, 5, 0, kinds=("encoder",))
    decoder = Attentions(decoder=encoder.encoder)
    for attentions, name in ((encoder, "encoder"), (decoder, "decoder")):
        [(kind, view)] = views_by_kind(AttendedText("text", tokens, attentions)._repr_html_()).items()
        assert kind == name
        assert view["rows"] == view["columns"] == [f"w{index}" for index in range(5)]

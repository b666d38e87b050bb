"""What a model made with ``attention="all"`` shows itself with every matrix, on the engine and in torch."""

from __future__ import annotations

import json
import re

import attention_samples as samples
import pytest
import tiny_models as tiny

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.results.attention import Attentions
from uwaga.translator import AttendedText


def kinds_of(html: str) -> dict[str, dict]:
    [value] = re.findall(r"attentionView\(root, (\{.*\})\);", html)
    return {kind["kind"]: kind for kind in json.loads(value)["kinds"]}


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_every_matrix_of_a_translation(engine, tmp_path):
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    save_model(tmp_path / "model", model, tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "card")
    translator = uwaga.load(tmp_path / "model", device="cpu", engine=engine)
    for text in ("Where is the station?", "The dog sees the cat. Where is the station?"):
        made = translator.translate(text, attention="all", split="sentences", entropy=True)
        found = kinds_of(made._repr_html_())
        assert set(found) == {"cross", "encoder", "decoder"}
        for name, kind in found.items():
            shape = (kind["layers"], kind["heads"], len(kind["rows"]), len(kind["columns"]))
            assert shape == getattr(made.attentions, name).shape


def test_a_text_of_one_model_alone():
    tokens = samples.pieces(5)
    encoder = samples.attentions(2, 3, 5, 0, kinds=("encoder",))
    decoder = Attentions(decoder=encoder.encoder)
    for made, name in ((encoder, "encoder"), (decoder, "decoder")):
        [(kind, shown)] = kinds_of(AttendedText("text", tokens, made)._repr_html_()).items()
        assert kind == name
        assert shown["rows"] == shown["columns"] == [f"w{at}" for at in range(5)]

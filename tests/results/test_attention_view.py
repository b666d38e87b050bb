"""The attention view without a browser: its data, its errors, and the escaping of texts."""

import base64
import json
import math
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path

import attention_samples as samples
import numpy as np
import pytest
from html_page import HOSTILE_TEXTS, Page
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from uwaga.errors import DataError, SettingsError
from uwaga.results.attention import Attentions
from uwaga.results.translation import Translation
from uwaga.results.views import SHADES, attention_view, label, static_heat_map

ROOT = Path(__file__).parents[2]


class Tags(HTMLParser):
    """Parses a page and collects its tags, attributes and scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts = ""
        self.attributes: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts += data


def script_data(view: str) -> dict:
    """Return the data that are passed to the script."""
    [value] = re.findall(r"attentionView\(root, (\{.*\})\);", view)
    return json.loads(value)


def unpacked_weights(kind: dict) -> np.ndarray:
    levels = np.frombuffer(zlib.decompress(base64.b64decode(kind["weights"])), np.uint8)
    return levels.reshape(kind["layers"], kind["heads"], len(kind["rows"]), len(kind["columns"])) / 255


def test_attention_weights_are_stored_in_8_bits():
    attentions = samples.attentions(3, 4, 8, 6)
    view = attention_view(attentions, samples.pieces(7, "s"), samples.pieces(5, "t"))
    kinds = {kind["kind"]: kind for kind in script_data(view)["kinds"]}
    assert list(kinds) == ["cross", "encoder", "decoder"]
    for name, kind in kinds.items():
        np.testing.assert_allclose(unpacked_weights(kind), getattr(attentions, name), atol=0.5 / 255 + 1e-7)
    source, target = [f"s{i}" for i in range(7)] + ["</s>"], [f"t{i}" for i in range(5)] + ["</s>"]
    assert (kinds["cross"]["rows"], kinds["cross"]["columns"]) == (target, source)
    assert (kinds["encoder"]["rows"], kinds["encoder"]["columns"]) == (source, source)
    assert (kinds["decoder"]["rows"], kinds["decoder"]["columns"]) == (target, ["<s>", *target[:-1]])


def test_decoder_only_attention_is_labelled_with_its_tokens():
    attentions = samples.attentions(1, 2, 0, 5, kinds=("decoder",))
    [kind] = script_data(attention_view(attentions, (), samples.pieces(5)))["kinds"]
    assert kind["rows"] == kind["columns"] == [f"w{i}" for i in range(5)]


def test_view_of_144_heads_and_30_tokens_is_at_most_300_kB():
    attentions = samples.attentions(12, 12, 30, 30, kinds=("encoder",))
    assert len(attention_view(attentions, samples.pieces(30), ()).encode()) <= 300_000
    noise = np.random.default_rng(0).random((12, 12, 30, 30), dtype=np.float32)  # incompressible
    assert len(attention_view(Attentions(encoder=noise), samples.pieces(30), ()).encode()) <= 300_000


@given(st.lists(st.sampled_from(samples.HOSTILE_TOKENS) | HOSTILE_TEXTS, min_size=1, max_size=6))
def test_tokens_are_escaped_in_html(tokens):
    view = attention_view(samples.attentions(1, 1, len(tokens), len(tokens)), tokens, tokens)
    parsed = Tags(view)
    assert parsed.tags.count("script") == 1
    assert set(parsed.tags) <= {"div", "svg", "g", "path", "text", "script"}
    assert not any(name.startswith("on") or name in ("src", "href") for name in parsed.attributes)
    assert parsed.scripts.isascii() or "\u2028" not in parsed.scripts
    assert "http" not in view.replace("http://www.w3.org/2000/svg", "")
    labels = script_data(view)["kinds"][0]["rows"]
    assert labels == [label(token).encode("utf-8", "replace").decode() for token in tokens]


def test_element_ids_of_views_are_unique_unless_given():
    attentions, tokens = samples.attentions(1, 1, 3, 3), samples.pieces(3)
    first, second = attention_view(attentions, tokens, tokens), attention_view(attentions, tokens, tokens)
    assert first != second
    named = attention_view(attentions, tokens, tokens, name="here")
    assert named == attention_view(attentions, tokens, tokens, name="here")
    assert '<div id="here"' in named
    for name in ("", "1a", 'a" onload="x', "a b"):
        with pytest.raises(SettingsError, match="letters, digits and hyphens"):
            attention_view(attentions, tokens, tokens, name=name)


@pytest.mark.parametrize("shape", [(1, 1, 3, 5), (1, 1, 6, 3), (1, 3, 3), (3, 3), (0, 1, 3, 3), (1, 0, 3, 3)])
def test_attention_matrices_of_mismatched_shapes_are_rejected(shape):
    with pytest.raises(
        SettingsError, match=r"cross attention of shape .* does not fit 3 source and 3 target"
    ):
        attention_view(Attentions(cross=np.zeros(shape, np.float32)), samples.pieces(3), samples.pieces(3))


def test_unknown_language_is_rejected():
    attentions, tokens = samples.attentions(1, 1, 3, 3), samples.pieces(3)
    assert script_data(attention_view(attentions, tokens, tokens, language="pl"))["language"] == "pl"
    with pytest.raises(SettingsError, match="choose one of en, de, es, pl, zh"):
        attention_view(attentions, tokens, tokens, language="fr")


def test_documentation_example_matches_the_current_output():
    example = (ROOT / "docs/figures/attention-view.html").read_text(encoding="utf-8")
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "src/uwaga/results").glob("*.js")]
    assert len(scripts) == 2
    assert all(script in example for script in scripts), (
        "make it again: python docs/figures/attention_view.py"
    )
    style = (ROOT / "src/uwaga/results/attention_view.css").read_text(encoding="utf-8")
    assert script_data(example)["style"] == style
    assert [kind["kind"] for kind in script_data(example)["kinds"]] == ["cross", "encoder", "decoder"]


def test_view_without_attention_is_rejected():
    with pytest.raises(SettingsError, match="no attention to show"):
        attention_view(Attentions(), (), ())


@given(arrays.arrays(np.float32, (4, 7), elements=st.floats(0, 1, width=32)))
def test_static_heat_map_draws_each_cell_once(weights):
    svg = static_heat_map("cross", list("abcd"), list("efghijk"), weights)
    cells = np.zeros((4, 7), int)
    for start, row, count in re.findall(r"M(\d+) (\d+)\.5h(\d+)", svg):
        cells[int(row), int(start) : int(start) + int(count)] += 1
    np.testing.assert_array_equal(cells, weights >= np.float32(SHADES[0]))


def translation(**changes):
    scores = tuple(math.log(probability) for probability in (0.9, 0.2, 0.5, 0.95))
    values = {"score": -1.0, "tokens": ("▁Ein", "▁Aut", "o."), "token_scores": scores, "source": "A car."}
    return Translation("Ein Auto.", **{**values, "log_prob": sum(scores), **changes})


def test_html_without_attention_shows_texts_and_scores():
    alternative = translation(score=-2.0, tokens=("▁Ein", "▁Wag", "en."))
    shown = translation(alternatives=(alternative,), warnings=("strange",), truncated=True)
    html = Page(shown._repr_html_())
    for text in (
        "A car.",
        "Ein Auto.",
        "score -1.000",
        "strange",
        "1 alternatives",
        "-2.00",
        "cut at the length",
    ):
        assert html.shows(text)
    spans = html.attributes("span")
    assert [("background" in (span.get("style") or "")) for span in spans[:2]] == [False, True]
    assert spans[1]["title"] == "probability 0.10, mean of its pieces 0.32"


@given(HOSTILE_TEXTS, HOSTILE_TEXTS, st.lists(HOSTILE_TEXTS, max_size=4))
def test_html_escapes_all_text(text, source, tokens):
    step = Translation(text, 0.0, tuple(tokens), (-1.0,) * len(tokens), source=source, warnings=(source,))
    step = translation(alternatives=(step,), steps=(step,), error=DataError(text), source=text)
    html = Page(step._repr_html_())
    assert html.shows(text) and html.shows(source)


def test_html_with_attention_shows_recorded_matrices():
    weights = np.full((4, 3), 1 / 3, np.float32)
    pieces = ("▁A", "▁car.")
    single_matrix = translation(attention=weights, source_tokens=pieces)._repr_html_()
    [kind] = script_data(single_matrix)["kinds"]
    assert (kind["layers"], kind["heads"], kind["rows"]) == (1, 1, ["Ein", "Aut", "o.", "</s>"])
    attentions = Attentions(cross=np.full((2, 5, 4, 3), 1 / 3, np.float32))
    all_matrices = translation(attention=weights, attentions=attentions, source_tokens=pieces)._repr_html_()
    [kind] = script_data(all_matrices)["kinds"]
    assert (kind["layers"], kind["heads"]) == (2, 5)

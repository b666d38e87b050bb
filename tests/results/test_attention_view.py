"""The attention view without a browser: what it holds, what it refuses, and that texts stay texts."""

from __future__ import annotations

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
from html_page import HOSTILE, Page
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from uwaga.errors import DataError, SettingsError
from uwaga.results.attention import Attentions
from uwaga.results.translation import Translation
from uwaga.results.views import SHADES, attention_view, label, still_attention

ROOT = Path(__file__).parents[2]


class Tags(HTMLParser):
    """The tags of a page and what its scripts hold."""

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


def data_of(view: str) -> dict:
    """What the script is given."""
    [value] = re.findall(r"attentionView\(root, (\{.*\})\);", view)
    return json.loads(value)


def weights_of(kind: dict) -> np.ndarray:
    levels = np.frombuffer(zlib.decompress(base64.b64decode(kind["weights"])), np.uint8)
    return levels.reshape(kind["layers"], kind["heads"], len(kind["rows"]), len(kind["columns"])) / 255


def test_it_holds_every_weight_to_8_bits():
    made = samples.attentions(3, 4, 8, 6)
    view = attention_view(made, samples.pieces(7, "s"), samples.pieces(5, "t"))
    kinds = {kind["kind"]: kind for kind in data_of(view)["kinds"]}
    assert list(kinds) == ["cross", "encoder", "decoder"]
    for name, kind in kinds.items():
        np.testing.assert_allclose(weights_of(kind), getattr(made, name), atol=0.5 / 255 + 1e-7)
    source, target = [f"s{at}" for at in range(7)] + ["</s>"], [f"t{at}" for at in range(5)] + ["</s>"]
    assert (kinds["cross"]["rows"], kinds["cross"]["columns"]) == (target, source)
    assert (kinds["encoder"]["rows"], kinds["encoder"]["columns"]) == (source, source)
    assert (kinds["decoder"]["rows"], kinds["decoder"]["columns"]) == (target, ["<s>", *target[:-1]])


def test_a_decoder_alone_looks_at_its_own_tokens():
    made = samples.attentions(1, 2, 0, 5, kinds=("decoder",))
    [kind] = data_of(attention_view(made, (), samples.pieces(5)))["kinds"]
    assert kind["rows"] == kind["columns"] == [f"w{at}" for at in range(5)]


def test_144_heads_of_30_tokens_take_at_most_300_kB():
    made = samples.attentions(12, 12, 30, 30, kinds=("encoder",))
    assert len(attention_view(made, samples.pieces(30), ()).encode()) <= 300_000
    noise = np.random.default_rng(0).random(
        (12, 12, 30, 30), dtype=np.float32
    )  # nothing can be packed shorter
    assert len(attention_view(Attentions(encoder=noise), samples.pieces(30), ()).encode()) <= 300_000


@given(st.lists(st.sampled_from(samples.HOSTILE) | HOSTILE, min_size=1, max_size=6))
@settings(deadline=None, max_examples=50)
def test_a_token_is_no_markup(tokens):
    view = attention_view(samples.attentions(1, 1, len(tokens), len(tokens)), tokens, tokens)
    found = Tags(view)
    assert found.tags.count("script") == 1
    assert set(found.tags) <= {"div", "svg", "g", "path", "text", "script"}
    assert not any(name.startswith("on") or name in ("src", "href") for name in found.attributes)
    assert found.scripts.isascii() or "\u2028" not in found.scripts
    assert "http" not in view.replace("http://www.w3.org/2000/svg", "")
    shown = data_of(view)["kinds"][0]["rows"]
    assert shown == [label(one).encode("utf-8", "replace").decode() for one in tokens]


def test_names_are_of_one_output_each_unless_given():
    made, tokens = samples.attentions(1, 1, 3, 3), samples.pieces(3)
    one, other = attention_view(made, tokens, tokens), attention_view(made, tokens, tokens)
    assert one != other
    given_name = attention_view(made, tokens, tokens, name="here")
    assert given_name == attention_view(made, tokens, tokens, name="here")
    assert '<div id="here"' in given_name
    for wrong in ("", "1a", 'a" onload="x', "a b"):
        with pytest.raises(SettingsError, match="letters, digits and hyphens"):
            attention_view(made, tokens, tokens, name=wrong)


@pytest.mark.parametrize("shape", [(1, 1, 3, 5), (1, 1, 6, 3), (1, 3, 3), (3, 3), (0, 1, 3, 3), (1, 0, 3, 3)])
def test_matrices_that_do_not_fit_the_tokens_are_refused(shape):
    with pytest.raises(
        SettingsError, match=r"cross attention of shape .* does not fit 3 source and 3 target"
    ):
        attention_view(Attentions(cross=np.zeros(shape, np.float32)), samples.pieces(3), samples.pieces(3))


def test_a_language_that_is_missing_is_refused():
    made, tokens = samples.attentions(1, 1, 3, 3), samples.pieces(3)
    assert data_of(attention_view(made, tokens, tokens, language="pl"))["language"] == "pl"
    with pytest.raises(SettingsError, match="choose one of en, de, es, pl, zh"):
        attention_view(made, tokens, tokens, language="fr")


def test_the_example_of_the_docs_is_of_this_version():
    example = (ROOT / "docs/figures/attention-view.html").read_text(encoding="utf-8")
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "src/uwaga/results").glob("*.js")]
    assert len(scripts) == 2
    assert all(script in example for script in scripts), (
        "make it again: python docs/figures/attention_view.py"
    )
    style = (ROOT / "src/uwaga/results/attention_view.css").read_text(encoding="utf-8")
    assert data_of(example)["style"] == style
    assert [kind["kind"] for kind in data_of(example)["kinds"]] == ["cross", "encoder", "decoder"]


def test_nothing_to_show_is_refused():
    with pytest.raises(SettingsError, match="no attention to show"):
        attention_view(Attentions(), (), ())


@given(arrays.arrays(np.float32, (4, 7), elements=st.floats(0, 1, width=32)))
def test_the_still_picture_covers_each_cell_once(weights):
    picture = still_attention("cross", list("abcd"), list("efghijk"), weights)
    cells = np.zeros((4, 7), int)
    for start, row, count in re.findall(r"M(\d+) (\d+)\.5h(\d+)", picture):
        cells[int(row), int(start) : int(start) + int(count)] += 1
    np.testing.assert_array_equal(cells, weights >= np.float32(SHADES[0]))


def translation(**changes):
    scores = tuple(math.log(one) for one in (0.9, 0.2, 0.5, 0.95))
    values = {"score": -1.0, "tokens": ("▁Ein", "▁Aut", "o."), "token_scores": scores, "source": "A car."}
    return Translation("Ein Auto.", **{**values, "log_prob": sum(scores), **changes})


def test_a_translation_without_attention_shows_its_text_words_and_alternatives():
    other = translation(score=-2.0, tokens=("▁Ein", "▁Wag", "en."))
    made = translation(alternatives=(other,), warnings=("strange",), truncated=True)
    found = Page(made._repr_html_())
    for text in (
        "A car.",
        "Ein Auto.",
        "score -1.000",
        "strange",
        "1 alternatives",
        "-2.00",
        "cut at the length",
    ):
        assert found.shows(text)
    spans = found.of("span")
    assert [("background" in (one.get("style") or "")) for one in spans[:2]] == [False, True]
    assert spans[1]["title"] == "probability 0.10, mean of its pieces 0.32"


@given(HOSTILE, HOSTILE, st.lists(HOSTILE, max_size=4))
@settings(deadline=None, max_examples=50)
def test_any_text_of_a_translation_is_shown_as_text(text, source, tokens):
    made = Translation(text, 0.0, tuple(tokens), (-1.0,) * len(tokens), source=source, warnings=(source,))
    made = translation(alternatives=(made,), steps=(made,), error=DataError(text), source=text)
    found = Page(made._repr_html_())
    assert found.shows(text) and found.shows(source)


def test_a_translation_with_attention_shows_it():
    weights = np.full((4, 3), 1 / 3, np.float32)
    pieces = ("▁A", "▁car.")
    one = translation(attention=weights, source_tokens=pieces)._repr_html_()
    [kind] = data_of(one)["kinds"]
    assert (kind["layers"], kind["heads"], kind["rows"]) == (1, 1, ["Ein", "Aut", "o.", "</s>"])
    every = Attentions(cross=np.full((2, 5, 4, 3), 1 / 3, np.float32))
    two = translation(attention=weights, attentions=every, source_tokens=pieces)._repr_html_()
    [kind] = data_of(two)["kinds"]
    assert (kind["layers"], kind["heads"]) == (2, 5)

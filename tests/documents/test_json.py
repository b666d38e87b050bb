import json

import pytest
from document_laws import SWAPPED, render, swapped, texts, unchanged
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.documents import DocumentOptions
from uwaga.errors import DataError

LEAF = st.one_of(st.text(max_size=15), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none())
KEY = st.text('abcäß"\\{ ', max_size=4)
TREE = st.recursive(
    LEAF,
    lambda own: st.one_of(st.lists(own, max_size=3), st.dictionaries(KEY, own, max_size=3)),
    max_leaves=9,
)


def swap(tree):
    if isinstance(tree, dict):
        return {key: swap(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [swap(value) for value in tree]
    return tree.translate(SWAPPED) if isinstance(tree, str) else tree


@settings(deadline=None)
@given(TREE, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_values_alone_are_translated(tree, indent, ascii_only):
    text = json.dumps(tree, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert render("a.json", text, unchanged) == text
    assert json.loads(render("a.json", text, swapped)) == swap(tree)


def test_chosen_keys_and_metadata():
    text = b'{"menu": {"open": "Open {{name}}", "id": "x-id"}, "list": ["one", "two"], "n": 1}'
    chosen = DocumentOptions(keys=("open", "list.*"))
    assert texts("a.json", text, chosen) == [("Open {{name}}",), ("one",), ("two",)]
    arb = b'{"@@locale": "en", "hello": "Hello", "@hello": {"description": "A greeting"}}'
    made = render("a.arb", arb, swapped, DocumentOptions(target="pt-BR"))
    assert made == b'{"@@locale": "pt_BR", "hello": "hELLO", "@hello": {"description": "A greeting"}}'


@pytest.mark.parametrize(("text", "says"), [("{'a': 1}", "line 1, column 2"), ("[" * 100_000, "nested too")])
def test_refused(text, says):
    with pytest.raises(DataError, match=says):
        texts("a.json", text.encode())

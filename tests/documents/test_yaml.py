import pytest
import yaml
from document_laws import render, swapped, swapped_values, texts, unchanged
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.documents import DocumentOptions
from uwaga.errors import DataError

VALUE = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20),
    st.text("ab: #'\"\n-{}[]&*!|>%@`,?é ", max_size=20),
    st.integers(),
    st.booleans(),
    st.none(),
)
TREE = st.recursive(
    VALUE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.text("abc", min_size=1), TREE, min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([None, "'", '"', "|", ">"]),
)
def test_values_alone_are_translated(tree, flow, style):
    text = yaml.safe_dump(
        tree, allow_unicode=True, default_flow_style=flow, default_style=style, sort_keys=False
    )
    if yaml.safe_load(text) != tree:
        return  # PyYAML does not write every text so that it reads it again
    assert render("a.yaml", text.encode(), unchanged) == text.encode()
    changed = yaml.safe_load(render("a.yaml", text.encode(), swapped))
    assert changed == swapped_values(tree)


def test_a_space_that_is_no_space_of_yaml_belongs_to_its_value():
    made = render("a.yaml", "a: word\xa0\nb: other\n".encode(), swapped)
    assert yaml.safe_load(made) == {"a": "WORD\xa0", "b": "OTHER"}


FILE = b"""# a comment
en:
  title: A title   # another
  count: 12
  yes_no: "yes"
  body: |
    Several lines
    of text

  folded: >-
    One
    paragraph
  list:
    - one
    - 'it''s two'
"""


def test_layout_and_comments_stay():
    changed = render("a.yml", FILE, swapped).decode()
    assert "# a comment\nen:\n  title: a TITLE   # another\n  count: 12\n" in changed
    assert "  body: |\n    sEVERAL LINES\n    OF TEXT\n\n  folded: >-\n" in changed
    assert "    - 'IT''S TWO'\n" in changed


def test_chosen_keys():
    assert texts("a.yml", FILE, DocumentOptions(keys=("title", "en.list.*"))) == [
        ("A title",),
        ("one",),
        ("it's two",),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [("a: &x text\nb: *x\n", "line 2 has the alias"), ("a: [b\n", "not valid YAML"), ("[" * 200, "nested")],
)
def test_refused(text, says):
    with pytest.raises(DataError, match=says):
        texts("a.yml", text.encode())


RAILS = """en:
  files:
    one: "%{count} file"
    other: '%{count} files'
  flow: {one: a file, other: some files}
  long:
    one: |
      A file
      of ours
    other: Files
  choice:
    one: One
    other: Other
    three: Three
"""


def test_plurals_of_rails_are_those_of_the_target():
    for target in (None, "de"):
        options = DocumentOptions(target=target)
        assert render("a.yml", RAILS.encode(), unchanged, options).decode() == RAILS
    polish = render("a.yml", RAILS.encode(), unchanged, DocumentOptions(target="pl")).decode()
    own = yaml.safe_load(polish)["en"]
    assert own["files"] == {
        "one": "%{count} file",
        **dict.fromkeys(("few", "many", "other"), "%{count} files"),
    }
    assert own["flow"] == {"one": "a file", **dict.fromkeys(("few", "many", "other"), "some files")}
    assert own["long"] == {"one": "A file\nof ours\n", **dict.fromkeys(("few", "many", "other"), "Files")}
    assert own["choice"] == {"one": "One", "other": "Other", "three": "Three"}
    assert "    few: '%{count} files'\n    many: '%{count} files'\n    other: '%{count} files'\n" in polish
    assert "{one: a file, few: some files, many: some files, other: some files}" in polish
    japanese = render("a.yml", RAILS.encode(), swapped, DocumentOptions(target="ja")).decode()
    assert yaml.safe_load(japanese)["en"]["flow"] == {"other": "SOME FILES"}


def test_a_comment_between_plurals_stays():
    text = "a:\n  one: file # single\n  other: files\n"
    assert render("a.yml", text.encode(), unchanged, DocumentOptions(target="pl")).decode() == text

import pytest
import yaml
from document_laws import has_no_placeholders, identity, render, swap_case, swap_case_in_tree, texts
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga_documents import DocumentOptions

VALUE = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20).filter(
        has_no_placeholders
    ),
    st.text("ab: #'\"\n-{}[]&*!|>%@`,?é ", max_size=20).filter(has_no_placeholders),
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


@given(
    st.dictionaries(st.text("abc", min_size=1), TREE, min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([None, "'", '"', "|", ">"]),
)
def test_only_yaml_string_values_are_translated(tree, flow, style):
    text = yaml.safe_dump(
        tree, allow_unicode=True, default_flow_style=flow, default_style=style, sort_keys=False
    )
    if yaml.safe_load(text) != tree:
        return  # PyYAML does not write every text so that it reads it again
    assert render("a.yaml", text.encode(), identity) == text.encode()
    changed = yaml.safe_load(render("a.yaml", text.encode(), swap_case))
    assert changed == swap_case_in_tree(tree)


def test_no_break_space_is_part_of_a_yaml_value():
    rendered = render("a.yaml", "a: word\xa0\nb: other\n".encode(), swap_case)
    assert yaml.safe_load(rendered) == {"a": "WORD\xa0", "b": "OTHER"}


YAML_FILE = b"""# a comment
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


def test_yaml_layout_and_comments_are_preserved():
    changed = render("a.yml", YAML_FILE, swap_case).decode()
    assert "# a comment\nen:\n  title: a TITLE   # another\n  count: 12\n" in changed
    assert "  body: |\n    sEVERAL LINES\n    OF TEXT\n\n  folded: >-\n" in changed
    assert "    - 'IT''S TWO'\n" in changed


def test_only_values_of_selected_yaml_keys_are_translated():
    assert texts("a.yml", YAML_FILE, DocumentOptions(keys=("title", "en.list.*"))) == [
        ("A title",),
        ("one",),
        ("it's two",),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: &x text\nb: *x\n", "line 2 has the alias"), ("a: [b\n", "not valid YAML"), ("[" * 200, "nested")],
)
def test_invalid_yaml_is_rejected(text, message):
    with pytest.raises(DataError, match=message):
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


def test_rails_plurals_get_the_forms_of_the_target_language():
    for target in (None, "de"):
        options = DocumentOptions(target=target)
        assert render("a.yml", RAILS.encode(), identity, options).decode() == RAILS
    polish = render("a.yml", RAILS.encode(), identity, DocumentOptions(target="pl")).decode()
    messages = yaml.safe_load(polish)["en"]
    assert messages["files"] == {
        "one": "%{count} file",
        **dict.fromkeys(("few", "many", "other"), "%{count} files"),
    }
    assert messages["flow"] == {"one": "a file", **dict.fromkeys(("few", "many", "other"), "some files")}
    assert messages["long"] == {
        "one": "A file\nof ours\n",
        **dict.fromkeys(("few", "many", "other"), "Files"),
    }
    assert messages["choice"] == {"one": "One", "other": "Other", "three": "Three"}
    assert "    few: '%{count} files'\n    many: '%{count} files'\n    other: '%{count} files'\n" in polish
    assert "{one: a file, few: some files, many: some files, other: some files}" in polish
    japanese = render("a.yml", RAILS.encode(), swap_case, DocumentOptions(target="ja")).decode()
    assert yaml.safe_load(japanese)["en"]["flow"] == {"other": "SOME FILES"}


def test_plurals_with_comments_between_them_are_unchanged():
    text = "a:\n  one: file # single\n  other: files\n"
    assert render("a.yml", text.encode(), identity, DocumentOptions(target="pl")).decode() == text


def test_ruby_symbols_are_not_translated():
    text = b"""en:
  order: [:year, :month, ":day", :a b]
  list:
  - :year
  - !ruby/symbol month
  name: Hello %{name}, :count
  yes: Sure
  "no": Never
"""
    rendered = render("a.yml", text, swap_case).decode()
    assert '[:year, :month, ":day",' in rendered and "- :year\n  - !ruby/symbol month\n" in rendered
    assert "hELLO %{name}, :count" in rendered
    assert "yes: sURE" in rendered and '"no": nEVER' in rendered


def test_language_code_that_reads_as_a_boolean_is_quoted():
    rendered = render("a.yml", b"en:\n  a: It\n", identity, DocumentOptions(source="en", target="no"))
    assert list(yaml.safe_load(rendered)) == ["no"]

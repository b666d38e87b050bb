import json

import pytest
from document_laws import has_no_placeholders, identity, render, swap_case, swap_case_in_tree, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga.markup import plain_text
from uwaga_documents import DocumentOptions

SCALAR = st.one_of(
    st.text(max_size=15).filter(has_no_placeholders), st.integers(), st.floats(allow_nan=False),
    st.booleans(), st.none(),
)  # fmt: skip
KEY = st.text('abcäß"\\{ ', max_size=4)
TREE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEY, inner, max_size=3)),
    max_leaves=9,
)


@settings(deadline=None)
@given(TREE, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_only_json_string_values_are_translated(tree, indent, ascii_only):
    text = json.dumps(tree, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert render("a.json", text, identity) == text
    assert json.loads(render("a.json", text, swap_case)) == swap_case_in_tree(tree)


def test_only_values_of_selected_json_keys_are_translated():
    text = b'{"menu": {"open": "Open {{name}}", "id": "x-id"}, "list": ["one", "two"], "n": 1}'
    options = DocumentOptions(keys=("open", "list.*"))
    assert texts("a.json", text, options) == [("Open {{name}}",), ("one",), ("two",)]
    arb = b'{"@@locale": "en", "hello": "Hello", "@hello": {"description": "A greeting"}}'
    rendered = render("a.arb", arb, swap_case, DocumentOptions(target="pt-BR"))
    assert rendered == b'{"@@locale": "pt_BR", "hello": "hELLO", "@hello": {"description": "A greeting"}}'


@pytest.mark.parametrize(
    ("text", "message"), [("{'a': 1}", "line 1, column 2"), ("[" * 100_000, "nested too")]
)
def test_invalid_json_documents_are_rejected(text, message):
    with pytest.raises(DataError, match=message):
        texts("a.json", text.encode())


PLURALS = """{
  "menu": {
    "files_one": "{{count}} file",
    "files_other": "{{count}} files",
    "place_ordinal_one": "the {{count}}st",
    "place_ordinal_other": "the {{count}}th"
  },
  "each_other": "Each other", "one": "One", "other": "Other"
}
"""


@pytest.mark.parametrize(
    ("target", "forms"),
    [
        (None, ("one", "other")), ("de", ("one", "other")), ("pl", ("one", "few", "many", "other")),
        ("ja", ("other",)), ("ar", ("zero", "one", "two", "few", "many", "other")),
    ],
)  # fmt: skip
def test_i18next_plurals_get_the_forms_of_the_target_language(target, forms):
    options = DocumentOptions(target=target)
    rendered = render("a.json", PLURALS.encode(), identity, options).decode()
    if len(forms) == 2:
        assert rendered == PLURALS
    expected = json.loads(PLURALS)
    menu = expected["menu"]
    ordinals = {key: value for key, value in menu.items() if "ordinal" in key}
    plurals = {f"files_{form}": menu["files_one" if form == "one" else "files_other"] for form in forms}
    expected["menu"] = plurals | ordinals
    assert json.loads(rendered) == expected
    assert list(json.loads(rendered)["menu"]) == [*plurals, *ordinals]
    assert rendered.count("\n    ") == len(forms) + 2  # a line each, as the file has them
    assert json.loads(render("a.json", PLURALS.encode(), swap_case, options)) == swap_case_in_tree(expected)


def test_incomplete_plural_groups_are_unchanged():
    for text in (
        '{"a_one": "x", "b": "y", "a_other": "z"}',
        '{"a_one": "x", "a_few": "y"}',
        '{"a_one": "x", "a_other": ["z"]}',
        '["a_one", "a_other"]',
        '{"a_one": "1", "a_other": "2"}',
        '{"a_one": "x", "a_\\u006fther": "y"}',
    ):
        assert render("a.json", text.encode(), identity, DocumentOptions(target="pl")) == text.encode()
    zero = '{"a_zero": "none", "a_one": "one", "a_other": "some"}'
    rendered = json.loads(render("a.json", zero.encode(), identity, DocumentOptions(target="ja")))
    assert rendered == {"a_zero": "none", "a_other": "some"}


def tag_texts(inlines):
    """Return the texts of all tags, such as placeholders, in the given texts."""
    return [part.text for inline in inlines for part in inline if not isinstance(part, str)]


CHROME = b"""{
  "greeting": {
    "message": "Hello $USER$, it costs $$5.",
    "description": "Shown at the top",
    "placeholders": {"user": {"content": "$1", "example": "Two dogs"}}
  },
  "price": {"message": "Save"}
}"""


def test_only_message_values_of_chrome_files_are_translated():
    rendered = render("messages.json", CHROME, swap_case)
    assert rendered == CHROME.replace(b"Hello $USER$, it costs", b"hELLO $USER$, IT COSTS").replace(
        b"Save", b"sAVE"
    )
    options = DocumentOptions(keys=("description",))
    assert texts("messages.json", CHROME, options) == [("Shown at the top",)]
    other = CHROME.replace(b'{"message": "Save"}', b'{"text": "Save"}')
    assert len(texts("messages.json", other)) == 4  # no entry, but any tree
    formatjs = b'{"a": {"defaultMessage": "Open it", "description": "A button"}}'
    assert texts("a.json", formatjs) == [("Open it",)]


def test_application_placeholders_are_protected_by_tags():
    text = b'{"a": "Welcome :name at @:menu.home, :smile:", "b": "At 10:30", "c": ":name", "d": "%B %d, %Y"}'
    first, second = texts("a.json", text)
    assert tag_texts([first]) == [":name", "@:menu.home", ":smile:"] and tag_texts([second]) == []
    rendered = json.loads(render("a.json", text, swap_case))
    assert rendered["a"] == "wELCOME :name AT @:menu.home, :smile:"
    assert (rendered["c"], rendered["d"]) == (":name", "%B %d, %Y")


@pytest.mark.parametrize(
    ("message", "branches"),
    [
        ("car | cars", ["car", "cars"]),
        ("no car|{n} cars", ["no car", "{n} cars"]),
        ("{0} No car|[1,19] A car|[20,*] Cars", ["No car", "A car", "Cars"]),
        ("<b>A car</b> | :n cars", ["A car", ":n cars"]),
        ("{n, plural, one {a|b} other {c}} | car", ["a|b", "c", "car"]),
        ("{n, plural, one {a {x} | b} other {c}}", ["a {x} | b", "c"]),
        ("Press {'|'} or a || b", ["Press {'|'} or a || b"]),
        ("%s | car", ["car"]),
    ],
)
def test_plural_branches_of_a_message_are_translated_separately(message, branches):
    document = json.dumps({"key": message}).encode()
    assert [plain_text(inline) for inline in texts("a.json", document)] == branches
    written = json.loads(render("a.json", document, swap_case))["key"]
    assert written.casefold() == message.casefold()
    assert texts("a.po", b'msgid "car | cars"\nmsgstr ""\n') == [("car | cars",)]


@pytest.mark.parametrize(
    ("message", "translated"),
    [
        ("{n, plural, one {A <b>car</b>.} other {<b>{n} cars</b> of #.}}",
         "{n, plural, one {a <b>CAR</b>.} other {<b>{N} CARS</b> OF #.}}"),
        ("<p>He {g, select, male {<i>sleeps</i>} other {{n, plural, one {x} other {# y}}}} now</p>",
         "<p>hE {g, select, male {<i>SLEEPS</i>} other {{n, plural, one {X} other {# Y}}}} NOW</p>"),
        ("{g, select, a {don''t} other {it's}}", "{g, select, a {DON''T} other {IT'S}}"),
        ('<a href="<%= url %>">Go</a> <%= now %>', '<a href="<%= url %>">gO</a> <%= now %>'),
        ("50%<br>off %<name>s, %<size>05.2fKB", "50%<br>OFF %<name>s, %<size>05.2fKB"),
        ("{n, plural, one {never closed}", "{N, PLURAL, ONE {NEVER CLOSED}"),
    ],
)  # fmt: skip
def test_branches_of_icu_messages_are_translated(message, translated):
    text = json.dumps({"a": message}).encode()
    assert render("a.json", text, identity) == text
    assert json.loads(render("a.json", text, swap_case)) == {"a": translated}


def test_apostrophe_before_a_brace_is_doubled():
    text = b'{"a": "{g, select, a {of {x}} other {it}}"}'
    rendered = render("a.json", text, lambda inlines: [("d'{x}",) if "of" in str(i) else i for i in inlines])
    assert b"{d''{x}}" in rendered

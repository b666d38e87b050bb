import gettext
import io
import re

import pytest
from babel.messages.pofile import read_po
from document_laws import SWAP_CASE, identity, render, swap_case, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga_documents import DocumentOptions
from uwaga_documents.plurals import EXPRESSIONS, plural_expression, singular_forms

HEADER = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    '"Language: \\n"\n"Plural-Forms: {}\\n"\n\n'
)


def quoted(text):
    return (
        '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
    )


ENTRY = st.builds(
    lambda text, translation, context, fuzzy: (
        (f"#: a.c:1\n{'#, fuzzy, c-format' if fuzzy else '#, c-format'}\n")
        + (f"msgctxt {quoted(context)}\n" if context else "")
        + f"msgid {quoted(text)}\nmsgstr {quoted(translation)}\n"
    ),
    st.text('abcX \n"\\é%漢', min_size=1, max_size=120),
    st.sampled_from(["", "there"]),
    st.sampled_from(["", "menu"]),
    st.booleans(),
)


def without_placeholders(text):
    return re.sub(r"%[abcxABCX]+", "", text)


def parse_catalogue(content):
    return read_po(io.BytesIO(content))


@settings(deadline=None)
@given(st.lists(ENTRY, max_size=4))
def test_missing_po_translations_are_added(entries):
    numbered = [
        entry.replace("msgid ", f'msgid "{i}"\n', 1) for i, entry in enumerate(entries)
    ]  # no two are alike
    content = (HEADER.format("nplurals=2; plural=(n != 1);") + "\n".join(numbered)).encode()
    complete = render("a.po", content, identity)
    translated = render("a.po", content, swap_case)
    before, after = parse_catalogue(content), parse_catalogue(translated)
    assert [entry.id for entry in before] == [entry.id for entry in after]
    for old, new in zip(before, after, strict=True):
        if old.id == "":
            continue
        has_words = re.search(r"[^\W\d_]", without_placeholders(old.id))
        has_spaced_conversion = re.search(r"(?<!%)(?:%%)*% +[acX%]", old.id)
        if (old.string and not old.fuzzy) or has_spaced_conversion or not has_words:
            assert (new.string, new.flags, new.context) == (old.string, old.flags, old.context)
        else:
            expected = without_placeholders(old.id).translate(SWAP_CASE)
            assert without_placeholders(new.string) == expected
            assert new.flags == old.flags - {"fuzzy"} and new.context == old.context
    assert render("a.po", complete, swap_case) == complete  # nothing is left to translate
    options = DocumentOptions(retranslate=True)
    assert len(texts("a.po", complete, options)) >= len(texts("a.po", content))


def test_po_entries_get_the_plural_forms_of_the_target_language():
    content = HEADER.format("nplurals=INTEGER; plural=EXPRESSION;") + (
        'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    rendered = render("a.pot", content.encode(), identity, DocumentOptions(target="pl")).decode()
    assert 'msgstr[0] "%d file"\nmsgstr[1] "%d files"\nmsgstr[2] "%d files"\n' in rendered
    assert "Plural-Forms: nplurals=3; plural=(n==1" in rendered and '"Language: pl\\n"' in rendered
    rendered = render("a.pot", content.encode(), identity, DocumentOptions(target="ja")).decode()
    assert rendered.endswith('msgstr[0] "%d files"\n')
    assert parse_catalogue(rendered.encode()).num_plurals == 1


def test_plural_expressions_select_every_form():
    for language in EXPRESSIONS:
        match = re.search(r"nplurals=(\d); plural=(.*);", plural_expression(language))
        index = gettext.c2py(match[2])
        assert {index(n) for n in range(1000)} == set(range(int(match[1]))), language
    assert singular_forms(plural_expression("ru")) == (True, False, False)
    assert singular_forms(plural_expression("ja")) == (False,)


def test_po_comments_obsolete_entries_and_encoding_are_kept():
    text = (
        HEADER.format("nplurals=2; plural=(n != 1);").replace("UTF-8", "ISO-8859-1")
        + '# Übersetzer\n#| msgid "old"\n#, fuzzy\nmsgid "new"\nmsgstr "alt"\n\n'
        + '#~ msgid "gone"\n#~ msgstr "weg"\n'
    )
    rendered = render("a.po", text.encode("latin-1"), swap_case).decode("latin-1")
    assert rendered.endswith('# Übersetzer\nmsgid "new"\nmsgstr "NEW"\n\n#~ msgid "gone"\n#~ msgstr "weg"\n')


@pytest.mark.parametrize("line", ["msgid foo", 'msgid "a\\"', "what is this"])
def test_invalid_po_line_is_reported(line):
    with pytest.raises(DataError, match="line 2"):
        texts("a.po", f"# comment\n{line}\n".encode())


PLURAL_ENTRY = 'msgid "%d car"\nmsgid_plural "%d cars"\nmsgstr[0] ""\nmsgstr[1] ""\n'


def render_catalogue(header, target, entries=PLURAL_ENTRY, **options):
    content = f'msgid ""\nmsgstr ""\n{header}\n{entries}' if header else entries
    options = DocumentOptions(target=target, **options)
    return render("a.po", content.encode(), identity, options).decode()


@pytest.mark.parametrize(
    "header",
    [
        "",
        '"Project-Id-Version: x\\n"\n',
        '"Content-Type: text/plain; charset=CHARSET\\n"\n"Language: \\n"\n',
        '"Language: en\\n"\n"Plural-Forms: nplurals=2; plural="\n"(n != 1);\\n"\n',
        '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n',
        '"Language: de\\n"\n',
    ],
)
@pytest.mark.parametrize(("target", "forms"), [("ja", 1), ("pt", 2), ("pl", 3), ("sr_Latn", 3)])
def test_missing_po_header_fields_are_added(header, target, forms):
    catalogue = parse_catalogue(render_catalogue(header, target).encode())
    assert str(catalogue.locale) == target and catalogue.num_plurals == forms
    assert catalogue.charset.lower() == "utf-8"
    assert all(len(entry.string) == forms for entry in catalogue if entry.id)
    again = render_catalogue(header, target).encode()
    assert render("a.po", again, swap_case, DocumentOptions(target=target)) == again


def test_existing_language_and_plural_forms_headers_are_kept():
    header = '"Language: pt_BR\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    header += '"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n ? 1 : 2);\\n"\n'
    rendered = render_catalogue(header, "pt")
    assert header in rendered and rendered.count("msgstr[") == 3


def test_catalogue_in_another_language_is_refused_or_retranslated():
    header = '"Language: de\\n"\n'
    german = PLURAL_ENTRY + '\nmsgid "Open"\nmsgstr "\u00d6ffnen"\n'
    with pytest.raises(DataError, match="Language: de"):
        render_catalogue(header, "pt", german)
    assert '"Language: pt\\n"' in render_catalogue(header, "pt", german, retranslate=True)
    copied = PLURAL_ENTRY + '\nmsgid "Open"\nmsgstr "Open"\n'
    content = f'msgid ""\nmsgstr ""\n"Language: en\\n"\n\n{copied}'
    assert (
        'msgstr "oPEN"' in render("a.po", content.encode(), swap_case, DocumentOptions(target="pt")).decode()
    )


@pytest.mark.parametrize(
    ("flag", "text", "placeholders"),
    [
        ("c-format", "%s of %d", ["%s", "%d"]), ("fuzzy, python-format", "%sfiles of %s", ["%s", "%s"]),
        ("qt-format", "%1s of %L2, %n", ["%1", "%L2", "%n"]), ("kde-format", "%1 of %2x", ["%1", "%2"]),
        ("boost-format", "%1%x", ["%1%"]), ("gcc-internal-format", "%qs near %<x **%>", ["%qs", "%<x **%>"]),
        ("object-pascal-format", "%0:s of %1:d", ["%0:s", "%1:d"]), ("scheme-format", "~a x", ["~a"]),
        ("wrap", "!user x of @site and :url", ["!user", "@site", ":url"]),
    ],
)  # fmt: skip
def test_po_flags_select_the_placeholder_syntax(flag, text, placeholders):
    [inline] = texts("a.po", f'#, {flag}\nmsgid "{text}"\nmsgstr ""\n'.encode())
    assert [part.text for part in inline if not isinstance(part, str)] == placeholders


@pytest.mark.parametrize(
    ("flag", "target", "singular", "form"),
    [
        ("c-format", "de", "one file", "ONE FILE"), ("c-format", "ru", "one file", "%D FILES"),
        ("c-format", "ru", "%d file", "%D FILE"), ("python-format", "de", "one file", "%D FILES"),
        ("python-format", "de", "%(n)s file", ""), ("fuzzy", "ru", "one file", "%D FILES"),
    ],
)  # fmt: skip
def test_singular_without_a_number_is_used_only_for_the_value_1(flag, target, singular, form):
    entry = f'#, {flag}\nmsgid "{singular}"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    content = HEADER.format("").replace('"Plural-Forms: \\n"\n', "") + entry
    rendered = render("a.pot", content.encode(), swap_case, DocumentOptions(target=target)).decode()
    assert f'msgstr[0] "{form}"' in rendered


def test_singular_may_omit_named_arguments():
    entry = 'msgid "one file"\nmsgid_plural "%(n)s files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    content = HEADER.format("nplurals=2; plural=(n != 1);") + f"#, python-format\n{entry}"
    assert 'msgstr[0] "ONE FILE"' in render("a.po", content.encode(), swap_case).decode()


@pytest.mark.parametrize(
    ("flag", "text", "is_translated"),
    [
        ("python-format", "Use fewer than %(length) characters", False), ("python-format", "50% off", False),
        ("python-format", "50%% off, %d left", True), ("c-format", "Done: 100 % of %d", False),
        ("c-format", "Done: 100 %.", True), ("no-python-format", "50% off", True),
        ("qt-format", "50% off", True),
    ],
)  # fmt: skip
def test_texts_with_words_that_gettext_reads_as_conversions_are_unchanged(flag, text, is_translated):
    entry = f'#, {flag}\nmsgid "{text}"\nmsgstr ""\n'
    source = (HEADER.format("nplurals=2; plural=(n != 1);") + entry).encode()
    assert bool(texts("a.po", source)) is is_translated
    if not is_translated:
        assert render("a.po", source, swap_case) == source


@pytest.mark.parametrize(
    ("flag", "text", "reversed_text"),
    [
        *((f"{flag}-format", "%s to %d", "%2$d to %1$s") for flag in ("c", "php", "elisp", "librep", "d")),
        ("gcc-internal-format", "%qs to %q+D", "%2$q+D to %1$qs"),
        ("boost-format", "%|s| to %d", "%2$d to %|1$s|"),
        ("go-format", "%v to %+q", "%+[2]q to %[1]v"),
        ("object-pascal-format", "%s to %5d", "%1:5d to %0:s"),
        *((f"{flag}-format", "{} to {:>5}", "{1:>5} to {0}") for flag in ("python-brace", "c++", "rust")),
    ],
)
def test_reordered_arguments_are_numbered(flag, text, reversed_text):
    entry = f'#, {flag}\nmsgid "Copy {text}"\nmsgstr ""\n'.encode()

    def reverse(inlines):
        return [inline[::-1] for inline in inlines]

    assert f'msgstr "{reversed_text}Copy' in render("a.po", entry, reverse).decode()
    assert f'msgstr "Copy {text}"' in render("a.po", entry, identity).decode()
    assert f'msgstr "cOPY {text.replace("to", "TO")}"' in render("a.po", entry, swap_case).decode()


@pytest.mark.parametrize("flag", ["python-format", "lua-format", "scheme-format"])
def test_texts_with_arguments_that_cannot_be_numbered_are_unchanged(flag):
    entry = f'#, {flag}\nmsgid "Copy %s to %d"\nmsgstr ""\n'.encode()
    assert "$" not in str(texts("a.po", entry)) + render("a.po", entry, swap_case).decode()


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ("Can''t open {0}", "Can''t open {0}"), ("The file {0}", "L''ami''s {0}"),
        ("Open 'all' of {0}", "L''ami''s {0}"), ("Can't open {0}", None), ("Write '{0}' here", None),
    ],
)  # fmt: skip
def test_java_message_apostrophes_are_doubled(text, translation):
    """A single apostrophe would quote the placeholders that follow it."""
    entry = f'#, java-format\nmsgid "{text}"\nmsgstr ""\n'.encode()

    def translate(inlines):
        return inlines if "''" in text else [("L'ami's {0}",)]

    if translation is None:
        assert texts("a.po", entry) == []
        assert render("a.po", entry, swap_case) == entry
    else:
        assert "''" not in str(texts("a.po", entry))
        assert f'msgstr "{translation}"' in render("a.po", entry, translate).decode()


def test_code_in_backquotes_is_not_parsed_as_markup():
    catalogue = b'msgid "A :ref:`woman <people>` sees ``<dir>`` &amp; <b>%s</b>."\nmsgstr ""\n'
    [plain] = texts("a.po", catalogue.replace(b" &amp; <b>%s</b>", b""))
    assert plain == ("A :ref:`woman <people>` sees ``<dir>``.",)
    assert plain not in texts("a.po", catalogue)

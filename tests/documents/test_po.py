import gettext
import io
import re

import pytest
from babel.messages.pofile import read_po
from document_laws import SWAPPED, render, swapped, texts, unchanged
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.documents import DocumentOptions
from uwaga.documents.plurals import EXPRESSIONS, plural_expression, singular_forms
from uwaga.errors import DataError

HEAD = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    '"Language: \\n"\n"Plural-Forms: {}\\n"\n\n'
)


def quoted(text):
    return (
        '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
    )


ENTRY = st.builds(
    lambda text, there, context, fuzzy: (
        (f"#: a.c:1\n{'#, fuzzy, c-format' if fuzzy else '#, c-format'}\n")
        + (f"msgctxt {quoted(context)}\n" if context else "")
        + f"msgid {quoted(text)}\nmsgstr {quoted(there)}\n"
    ),
    st.text('abcX \n"\\é%漢', min_size=1, max_size=120),
    st.sampled_from(["", "there"]),
    st.sampled_from(["", "menu"]),
    st.booleans(),
)


def catalogue(content):
    return read_po(io.BytesIO(content))


@settings(deadline=None)
@given(st.lists(ENTRY, max_size=4))
def test_what_lacks_a_translation_gets_it(entries):
    numbered = [
        entry.replace("msgid ", f'msgid "{at}"\n', 1) for at, entry in enumerate(entries)
    ]  # no two are alike
    content = (HEAD.format("nplurals=2; plural=(n != 1);") + "\n".join(numbered)).encode()
    done = render("a.po", content, unchanged)
    made = render("a.po", content, swapped)
    before, after = catalogue(content), catalogue(made)
    assert [one.id for one in before] == [one.id for one in after]
    for old, new in zip(before, after, strict=True):
        if old.id == "":
            continue
        if (old.string and not old.fuzzy) or not re.search(r"[^\W\d_]", old.id):
            assert (new.string, new.flags, new.context) == (old.string, old.flags, old.context)
        else:
            assert new.string == old.id.translate(SWAPPED)
            assert new.flags == old.flags - {"fuzzy"} and new.context == old.context
    assert render("a.po", done, swapped) == done  # nothing is left to translate
    everything = DocumentOptions(retranslate=True)
    assert len(texts("a.po", done, everything)) >= len(texts("a.po", content))


def test_plurals_of_the_target_language():
    content = HEAD.format("nplurals=INTEGER; plural=EXPRESSION;") + (
        'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    made = render("a.pot", content.encode(), unchanged, DocumentOptions(target="pl")).decode()
    assert 'msgstr[0] "%d file"\nmsgstr[1] "%d files"\nmsgstr[2] "%d files"\n' in made
    assert "Plural-Forms: nplurals=3; plural=(n==1" in made and '"Language: pl\\n"' in made
    made = render("a.pot", content.encode(), unchanged, DocumentOptions(target="ja")).decode()
    assert made.endswith('msgstr[0] "%d files"\n')
    assert catalogue(made.encode()).num_plurals == 1


def test_every_expression_is_gettexts_own():
    for language in EXPRESSIONS:
        found = re.search(r"nplurals=(\d); plural=(.*);", plural_expression(language))
        index = gettext.c2py(found[2])
        assert {index(n) for n in range(1000)} == set(range(int(found[1]))), language
    assert singular_forms(plural_expression("ru")) == (True, False, False)
    assert singular_forms(plural_expression("ja")) == (False,)


def test_comments_obsolete_entries_and_other_encodings_stay():
    text = (
        HEAD.format("nplurals=2; plural=(n != 1);").replace("UTF-8", "ISO-8859-1")
        + '# Übersetzer\n#| msgid "old"\n#, fuzzy\nmsgid "new"\nmsgstr "alt"\n\n'
        + '#~ msgid "gone"\n#~ msgstr "weg"\n'
    )
    made = render("a.po", text.encode("latin-1"), swapped).decode("latin-1")
    assert made.endswith('# Übersetzer\nmsgid "new"\nmsgstr "NEW"\n\n#~ msgid "gone"\n#~ msgstr "weg"\n')


@pytest.mark.parametrize("line", ["msgid foo", 'msgid "a\\"', "what is this"])
def test_a_line_that_is_none_is_named(line):
    with pytest.raises(DataError, match="line 2"):
        texts("a.po", f"# comment\n{line}\n".encode())

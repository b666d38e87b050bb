"""Files of translations: reading of the formats of other tools, counts of skipped units, and export."""

import gzip
from collections import Counter
from pathlib import Path

import pytest
from babel.messages import pofile as babel_po
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from uwaga.errors import DataError, SettingsError
from uwaga_memory import Memory, Pair
from uwaga_memory.files import EXPORT_FORMATS, FileOptions, TranslationFile, read_pairs, write_pairs

XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
OMEGAT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx11.dtd">
<tmx version="1.1">
  <header creationtool="OmegaT" o-tmf="OmegaT TMX" adminlang="EN-US" datatype="plaintext" \
creationtoolversion="6.1.0_0_c1e3a7c" segtype="sentence" srclang="EN-US"/>
  <body>
<!-- Default translations -->
    <tu>
      <tuv lang="EN-US">
        <seg>The &lt;b0&gt;file&lt;/b0&gt; was saved.</seg>
      </tuv>
      <tuv lang="DE-DE" changeid="anna" changedate="20260801T101010Z" creationid="bert" \
creationdate="20260730T080000Z">
        <seg>Die &lt;b0&gt;Datei&lt;/b0&gt; wurde gespeichert.</seg>
      </tuv>
    </tu>
<!-- Alternative translations -->
    <tu>
      <prop type="file">menu.properties</prop>
      <prop type="id">menu.open</prop>
      <prop type="prev">File</prop>
      <prop type="next">Close</prop>
      <note>a verb &amp; a noun</note>
      <tuv lang="EN-US">
        <seg>Open</seg>
      </tuv>
      <tuv lang="DE-DE" changeid="anna" changedate="20260802T101010Z">
        <seg>Öffnen</seg>
      </tuv>
    </tu>
  </body>
</tmx>
"""
WEBLATE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="Translate Toolkit" creationtoolversion="3.13.3" segtype="sentence" o-tmf="UTF-8" \
adminlang="en" srclang="en" datatype="PlainText"/>
  <body>
    <tu>
      <note>Shown on the start page</note>
      <prop type="x-context">start.title</prop>
      <tuv xml:lang="en"><seg>Hello, {name}!</seg></tuv>
      <tuv xml:lang="de"><seg>Hallo, {name}!</seg></tuv>
    </tu>
    <tu>
      <tuv xml:lang="en"><seg>Two
lines  and spaces</seg></tuv>
      <tuv xml:lang="de"><seg>Zwei
Zeilen</seg></tuv>
    </tu>
  </body>
</tmx>
"""


def file(
    tmp_path: Path, name: str, content: str, languages: tuple[str, str] = ("en", "de"), **options: object
):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return TranslationFile(path, languages, FileOptions(**options))


def tmx(units: str, header: str = 'srclang="en"') -> str:
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header {header}/><body>{units}</body></tmx>'


def unit(**variants: str) -> str:
    return (
        "<tu>"
        + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants.items())
        + "</tu>"
    )


def texts(pairs) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in pairs]


def lxml_units(path: Path) -> Counter:
    """Return the units as lxml parses them: properties, notes, and attributes and texts of variants."""
    units = Counter()
    for tu in etree.parse(str(path)).iter("tu"):
        props = [(p.get("type"), p.text) for p in tu.iter("prop") if p.get("type") != "x-uwaga-origin"]
        variants = []
        for tuv in tu.iter("tuv"):
            attributes = {name: value for name, value in tuv.items() if name not in ("lang", XML_LANGUAGE)}
            language = (tuv.get("lang") or tuv.get(XML_LANGUAGE)).lower()[:2]
            variants.append((language, tuple(sorted(attributes.items())), tuv.findtext("seg")))
        units[tuple(sorted(props)), tuple(note.text for note in tu.iter("note")), tuple(variants)] += 1
    return units


@pytest.mark.parametrize(("name", "content"), [("omegat", OMEGAT), ("weblate", WEBLATE)])
def test_exports_of_other_tools_survive_a_round_trip(tmp_path: Path, name: str, content: str) -> None:
    memory = Memory.create(tmp_path / "a.uwm", "en", "de")
    original = file(tmp_path, f"{name}.tmx", content)
    assert memory.add(read_pairs(original)).new == 2 and not original.skipped
    write_pairs(tmp_path / "out.tmx", (pair for _, pair in memory.pairs()), memory.languages)
    again = Memory.create(tmp_path / "b.uwm", "en", "de")
    again.add(read_pairs(TranslationFile(tmp_path / "out.tmx", ("en", "de"))))
    first, second = ({pair.source: pair for _, pair in store.pairs()} for store in (memory, again))
    if name == "omegat":
        assert first == second and first["Open"].created == "2026-08-02T10:10:10Z"
        assert (first["Open"].key, first["Open"].before, first["Open"].after) == (
            "menu.open",
            "File",
            "Close",
        )
        assert lxml_units(original.path) == lxml_units(tmp_path / "out.tmx")
    else:  # without dates: those of the import are written
        assert first == second and first["Hello, {name}!"].key == "start.title"
        assert first["Hello, {name}!"].properties == (("unit.note", "Shown on the start page"),)
    assert all(pair.origin == f"{name}.tmx" for pair in first.values())


def test_languages_of_the_memory_select_tmx_variants(tmp_path: Path) -> None:
    content = tmx(
        unit(de="Haus", en="house", fr="maison")  # any order
        + '<tu><tuv lang="EN-GB"><seg>colour</seg></tuv><tuv lang="de_DE"><seg>Farbe</seg></tuv></tu>'
        + unit(fr="un", de="eins")
        + unit(en="two")
        + unit(**{"en-US": "color", "en-GB": "colour", "de-AT": "Farbe (AT)", "de": "Farbe (de)"}),
        'srclang="*all*"',
    )
    read = file(tmp_path, "a.tmx", content)
    assert texts(read_pairs(read)) == [
        ("house", "Haus"), ("colour", "Farbe"), ("color", "Farbe (AT)"), ("color", "Farbe (de)"),
    ]  # fmt: skip
    assert read.skipped == {"no text in en": 1, "no text in de": 1}
    reverse = file(tmp_path, "b.tmx", content, ("de", "en"))
    assert texts(read_pairs(reverse))[0] == ("Haus", "house")
    regional = file(tmp_path, "c.tmx", content, ("en-GB", "de-AT"))
    assert texts(read_pairs(regional))[-1] == ("colour", "Farbe (AT)")


def test_file_without_the_languages_of_the_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of its 1 units has both en and de; the file contains fr, it"):
        list(read_pairs(file(tmp_path, "a.tmx", tmx(unit(fr="un", it="uno")))))


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ("keep", "<b>bold</b>{0} and <i/> of <a href='x'><3/>"),
        ("placeholders", "<1>bold</1><2/> and <1/> of <2/><3/>"),
        ("drop", "bold and  of "),
    ],
)
def test_inline_code_option_controls_how_inline_codes_are_read(tmp_path, codes, expected) -> None:
    segment = (
        '<bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept><ph x="2">{0}</ph> <hi>and</hi> '
        "<it pos='isolated'>&lt;i/&gt;</it> of <ph>&lt;a href='<sub>x</sub>'&gt;</ph><ph/>"
    )
    read = file(tmp_path, "a.tmx", tmx(unit(en=segment, de="x")), codes=codes)
    assert texts(read_pairs(read)) == [(expected, "x")]


def test_external_dtds_are_not_fetched_and_entities_are_refused(tmp_path: Path) -> None:
    start = '<!DOCTYPE tmx SYSTEM "http://127.0.0.1:9/none.dtd">\n<tmx version="1.4"><header/><body>'
    content = f"{start}{unit(en='a', de='b')}</body></tmx>"
    assert texts(read_pairs(file(tmp_path, "a.tmx", content))) == [("a", "b")]
    for subset in (
        '<!ENTITY a "aaa">',
        '<!ENTITY % a SYSTEM "/etc/passwd">',
        '<!ENTITY a SYSTEM "/etc/passwd">',
    ):
        content = f"<!DOCTYPE tmx [{subset}]>\n<tmx><header/><body>{unit(en='&a;', de='b')}</body></tmx>"
        with pytest.raises(DataError, match="declares the entity"):
            list(read_pairs(file(tmp_path, "a.tmx", content)))


@pytest.mark.parametrize(
    ("name", "content"), [("a.tmx", OMEGAT[:-40]), ("a.xlf", "<xliff version='1.2'><file>")]
)
def test_importing_damaged_files_does_not_change_the_memory(tmp_path: Path, name: str, content: str) -> None:
    memory = Memory.create(tmp_path / "a.uwm", "en", "de")
    with pytest.raises(DataError, match=r"not a complete (TMX|XLIFF) file: .* line \d+, after unit"):
        memory.add(read_pairs(file(tmp_path, name, content)))
    assert len(memory) == 0


def test_oversized_tmx_units_are_skipped(tmp_path: Path) -> None:
    read = file(tmp_path, "a.tmx", tmx(unit(en="a" * 100_001, de="b") + unit(en="a", de="b")))
    assert len(list(read_pairs(read))) == 1 and read.skipped == {"longer than 100,000 characters": 1}
    with pytest.raises(DataError, match="more than 1000 variants"):
        list(
            read_pairs(
                file(
                    tmp_path, "b.tmx", tmx("<tu>" + '<tuv xml:lang="en"><seg>a</seg></tuv>' * 1001 + "</tu>")
                )
            )
        )


PO = r"""# Header
msgid ""
msgstr "Language: de\nContent-Type: text/plain; charset=UTF-8\n"

#: a.c:1
msgctxt "menu"
msgid "Open"
msgstr "Öffnen"

#, fuzzy
msgid "Close"
msgstr "Zu"

msgid "Save"
msgstr ""

msgid "%d file\n"
msgid_plural "%d files\n"
msgstr[0] "%d Datei\n"
msgstr[1] "%d Dateien\n"

#~ msgid "Old"
#~ msgstr "Alt"
"""


def test_po_pairs_are_read_and_written(tmp_path: Path) -> None:
    read = file(tmp_path, "a.po", PO)
    pairs = list(read_pairs(read))
    assert texts(pairs) == [("Open", "Öffnen"), ("%d file\n", "%d Datei\n"), ("%d files\n", "%d Dateien\n")]
    assert pairs[0].key == "menu" and read.skipped == {"fuzzy": 1, "not translated": 1}
    with pytest.raises(
        DataError, match="header: the translations are declared as 'de', but those of the memory are in fr"
    ):
        list(read_pairs(file(tmp_path, "b.po", PO, ("en", "fr"))))


WEBLATE_PO = r"""# German translations for PACKAGE package
# Anna <anna@example.org>, 2026.
msgid ""
msgstr ""
"Project-Id-Version: menus\n"
"Report-Msgid-Bugs-To: \n"
"POT-Creation-Date: 2026-07-01 10:00+0000\n"
"PO-Revision-Date: 2026-08-01 11:21+0000\n"
"Last-Translator: Anna <anna@example.org>\n"
"Language-Team: {name} <https://hosted.weblate.org/projects/menus/{code}/>\n"
"Language: {code}\n"
"MIME-Version: 1.0\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Content-Transfer-Encoding: 8bit\n"
"Plural-Forms: {plurals}\n"
"X-Generator: Weblate 5.14-dev\n"

#. Translators: a verb
#: src/menu.c:12 src/menu.c:40
msgctxt "menu|file"
msgid "Open"
msgstr "A"

#: src/menu.c:13
#, c-format
msgid "%d file saved"
msgid_plural "%d files saved"
{forms}

#: src/about.c:1
msgid ""
"A long text with \"quotes\", a tab\t and\n"
"two lines.\n"
msgstr ""
"B \"b\" \t\n"
"c.\n"

#: src/about.c:9
#, fuzzy, python-format
#| msgid "Old %(name)s"
msgid "New %(name)s"
msgstr "D %(name)s"

#~ msgid "Gone"
#~ msgstr "E"
"""
PLURALS = {
    "ja": "nplurals=1; plural=0;",
    "de": "nplurals=2; plural=n != 1;",
    "pl": "nplurals=3; plural=n==1 ? 0 : 1;",
}


@pytest.mark.parametrize("code", PLURALS)
def test_weblate_catalogue_survives_a_round_trip(tmp_path: Path, code: str) -> None:
    count = int(PLURALS[code].split("nplurals=")[1][0])
    forms = "\n".join(f'msgstr[{number}] "%d F{number}"' for number in range(count))
    content = WEBLATE_PO.replace("{code}", code).replace("{plurals}", PLURALS[code]).replace("{forms}", forms)
    original = file(tmp_path, "menus.po", content, ("en", code))
    memory = Memory.create(tmp_path / "a.uwm", "en", code)
    memory.add(read_pairs(original))
    assert original.skipped == {"fuzzy": 1}
    assert memory.matches("%d files saved")[0].target == f"%d F{count - 1}"
    stored = [pair for _, pair in memory.pairs()]
    for name in ("out.po", "out.tmx"):
        write_pairs(tmp_path / name, stored, memory.languages)
    again = list(read_pairs(TranslationFile(tmp_path / "out.tmx", ("en", code))))
    write_pairs(tmp_path / "again.po", again, memory.languages)

    def messages(path: Path) -> dict:
        with path.open("rb") as opened:
            catalogue = babel_po.read_po(opened)
        return {(each.context, each.id): each.string for each in catalogue if each.id and not each.fuzzy}

    expected = messages(original.path)
    assert len(expected) == 3
    assert messages(tmp_path / "out.po") == messages(tmp_path / "again.po") == expected
    without = [pair for pair in stored if pair.source != "%d files saved"]
    write_pairs(tmp_path / "less.po", without, memory.languages)
    assert all(isinstance(text, str) for text in messages(tmp_path / "less.po").values())


XLIFF_1 = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en-US" target-language="de"><body>
<trans-unit id="1" resname="title"><source>Hello <g id="1">you</g><x id="2"/></source>
  <target>Hallo <g id="1">du</g><x id="2"/></target>
  <alt-trans><source>Hello</source><target>falsch</target></alt-trans></trans-unit>
<trans-unit id="2"><source>New</source><target state="new">Neu</target></trans-unit>
<trans-unit id="3"><source>None</source></trans-unit>
<trans-unit id="4" translate="no"><source>X</source><target>X</target></trans-unit>
<trans-unit id="5"><source>A. B.</source>
  <seg-source><mrk mtype="seg" mid="1">A.</mrk> <mrk mtype="seg" mid="2">B.</mrk></seg-source>
  <target><mrk mtype="seg" mid="1">Ah.</mrk> <mrk mtype="seg" mid="2">Beh.</mrk></target></trans-unit>
<trans-unit id="6"><source><bpt id="1">&lt;b&gt;</bpt>B<ept id="1">&lt;/b&gt;</ept></source>
  <target><bpt id="1">&lt;b&gt;</bpt>C<ept id="1">&lt;/b&gt;</ept></target>
  <context-group><context context-type="x-gettext-msgctxt">ctx</context></context-group></trans-unit>
</body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de" xmlns="urn:oasis:names:tc:xliff:document:2.0">
<file id="f"><unit id="1" name="u"><originalData>
<data id="d1">&lt;b&gt;</data><data id="d2">&lt;/b&gt;</data></originalData>
<segment><source>A <pc id="1" dataRefStart="d1" dataRefEnd="d2">b</pc></source>
<target>Ah <pc id="1" dataRefStart="d1" dataRefEnd="d2">beh</pc></target></segment>
<segment state="initial"><source>C</source><target>Ceh</target></segment></unit>
<unit id="2"><segment><source>D <pc id="1">e</pc><ph id="2"/></source><target>Deh</target></segment></unit>
</file></xliff>"""


def test_xliff_pairs_are_read_and_written(tmp_path: Path) -> None:
    read = file(tmp_path, "a.xlf", XLIFF_1)
    pairs = list(read_pairs(read))
    assert [(pair.source, pair.target, pair.key) for pair in pairs] == [
        ('Hello <g id="1">you</g><x id="2"/>', 'Hallo <g id="1">du</g><x id="2"/>', "title"),
        ("A.", "Ah.", ""),
        ("B.", "Beh.", ""),
        ("<b>B</b>", "<b>C</b>", "ctx"),
    ]
    assert (pairs[1].before, pairs[1].after) == (pairs[0].source, "B.")
    assert read.skipped == {"not translated": 2, "not to be translated": 1}
    read = file(tmp_path, "b.xlf", XLIFF_2)
    assert texts(read_pairs(read)) == [
        ("A <b>b</b>", "Ah <b>beh</b>"),
        ('D <pc id="1">e</pc><ph id="2"/>', "Deh"),
    ]
    assert read.skipped == {"not translated": 1}
    placeholders = file(tmp_path, "c.xlf", XLIFF_1, codes="placeholders")
    assert next(iter(read_pairs(placeholders))).source == "Hello <1>you</1><2/>"
    with pytest.raises(
        DataError, match="the translations are declared as 'de', but those of the memory are in fr"
    ):
        list(read_pairs(file(tmp_path, "a.xlf", XLIFF_1, ("en", "fr"))))


def test_tsv_columns_are_read_by_number_or_name(tmp_path: Path) -> None:
    read = file(tmp_path, "a.tsv", "a\tb\nc\n\\n\td\n")
    assert texts(read_pairs(read)) == [("a", "b"), ("\\n", "d")] and read.skipped == {"a missing column": 1}
    columns = file(tmp_path, "b.tsv", "f\ta\tb\nf\tc\td\n", columns=("2", "3", "1"), in_order=True)
    pairs = list(read_pairs(columns))
    assert pairs == [Pair("a", "b", "f", after="c"), Pair("c", "d", "f", before="a")]
    named = file(tmp_path, "c.tsv", "de\ten\nA\\nB\tb\n", columns=("en", "de"))
    assert texts(read_pairs(named)) == [("b", "A\nB")]
    with pytest.raises(DataError, match="line 1 has 3 columns; state those"):
        list(read_pairs(file(tmp_path, "d.tsv", "f\ta\tb\n")))
    (tmp_path / "e.tsv.gz").write_bytes(gzip.compress(b"a\tb\n"))
    assert texts(read_pairs(TranslationFile(tmp_path / "e.tsv.gz", ("en", "de")))) == [("a", "b")]


def test_pairs_are_read_from_a_document_and_its_translation(tmp_path: Path) -> None:
    (tmp_path / "a.de.md").write_text("# Titel\n\nEin Absatz.\n")
    pairs = list(
        read_pairs(file(tmp_path, "a.md", "# Title\n\nA paragraph.\n", translation=tmp_path / "a.de.md"))
    )
    assert texts(pairs) == [("Title", "Titel"), ("A paragraph.", "Ein Absatz.")]
    assert pairs[0].after == "A paragraph." and pairs[0].origin == "a.md"
    (tmp_path / "a.de.md").write_text("# Titel\n")
    with pytest.raises(DataError, match=r"has 2 texts, but .* has 1"):
        list(
            read_pairs(file(tmp_path, "a.md", "# Title\n\nA paragraph.\n", translation=tmp_path / "a.de.md"))
        )


def test_pairs_read_from_documents_have_tags_and_keys(tmp_path: Path) -> None:
    (tmp_path / "a.de.md").write_text("Ein **fetter** Absatz.\n")
    [pair] = read_pairs(file(tmp_path, "a.md", "A **bold** paragraph.\n", translation=tmp_path / "a.de.md"))
    assert (pair.source, pair.target) == ("A **bold** paragraph.", "Ein **fetter** Absatz.")
    (tmp_path / "de.json").write_text('{"menu": {"open": "Öffnen"}, "state": "Offen"}')
    english = '{"menu": {"open": "Open"}, "state": "Open"}'
    pairs = read_pairs(file(tmp_path, "en.json", english, translation=tmp_path / "de.json"))
    assert [(pair.key, pair.target) for pair in pairs] == [("menu.open", "Öffnen"), ("state", "Offen")]


def test_unknown_format_error_lists_supported_formats(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--format tmx, tsv, po, xliff"):
        list(read_pairs(file(tmp_path, "a.xyz", "")))
    with pytest.raises(SettingsError, match="--format tmx, tsv, po, xliff"):
        write_pairs(tmp_path / "b.xyz", [], ("en", "de"))


TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t\r<&\"'\\"), min_size=1, max_size=20
).filter(lambda text: bool(text.strip()) and not set(text) & {"\ufffe", "\uffff"})
PAIRS = st.lists(
    st.builds(
        Pair,
        TEXT,
        TEXT,
        st.just("") | TEXT,
        st.just("") | TEXT,
        st.just("") | TEXT,
        st.just("") | TEXT,
        st.sampled_from(["2026-01-02T03:04:05Z", "2020-12-31T23:59:59Z"]),
        st.lists(
            st.tuples(
                st.sampled_from(
                    [
                        *("unit.note", "unit.prop.a", "unit.prop.id", "unit.prop.x-context"),
                        *("target.prop.prev", "target.changedate", "unit.creationid"),
                    ]
                ),
                st.sampled_from(["a", "20260102T030405Z"]),
            ),
            unique_by=lambda item: item[0],
            max_size=3,
        ).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("name", ["tmx", "tsv"])
@given(pairs=PAIRS)
def test_exported_pairs_survive_a_round_trip(tmp_path_factory, name: str, pairs: list[Pair]) -> None:
    path = tmp_path_factory.mktemp("a") / f"a.{name}"
    write_pairs(path, pairs, ("en", "de"))
    once = list(read_pairs(TranslationFile(path, ("en", "de"))))
    if name == "tsv":
        assert once == pairs
    assert [(pair.source, pair.target, pair.origin or path.name) for pair in pairs] == [
        (pair.source, pair.target, pair.origin or path.name) for pair in once
    ]
    write_pairs(path, once, ("en", "de"))
    assert list(read_pairs(TranslationFile(path, ("en", "de")))) == once


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_texts_and_keys_survive_a_round_trip_in_all_formats(tmp_path: Path, name: str) -> None:
    pairs = [Pair('A "<b>" & \\n\n', "Ä\tb\n", key="k"), Pair("A\nB", "c"), Pair("A\nB", "d")]
    path = tmp_path / f"a.{'xlf' if name == 'xliff' else name}.gz"
    skipped = write_pairs(path, pairs, ("en", "de"))
    if name == "po":  # compressed catalogues are no files of gettext
        assert skipped == {"another translation of the same key and source": 1}
        path = tmp_path / "a.po"
        write_pairs(path, pairs, ("en", "de"))
        pairs = [pairs[0], pairs[2]]
    read = read_pairs(TranslationFile(path, ("en", "de")))
    assert [(pair.source, pair.target, pair.key) for pair in read] == [
        (pair.source, pair.target, pair.key) for pair in pairs
    ]

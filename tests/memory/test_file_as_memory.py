"""Files of translations used as memories, such as the translated entries of a document itself."""

import gc
import gzip
from pathlib import Path

import pytest
from command_line import run_uwaga

import uwaga
from uwaga.errors import DataError, SettingsError
from uwaga.inspection import look_up
from uwaga.translator.memories import open_memory
from uwaga.translator.request import Request
from uwaga_documents import translate_file
from uwaga_memory.files import open_memory as open_file

HEADER = 'msgid ""\nmsgstr "Language: de\\nContent-Type: text/plain; charset=UTF-8\\n"\n\n'
CATALOGUE = HEADER + "\n".join(
    f"{before}msgid {text}\nmsgstr {translation}\n"
    for before, text, translation in (
        ("", '"&Open"', '"Ö&ffnen"'), ('msgctxt "b"\n', '"&Open"', '""'), ('msgctxt "c"\n', '"Open"', '""'),
        ("", '"Quit (&Q)"', '"Schluss (&Q)"'), ('msgctxt "b"\n', '"Quit"', '""'),
        ("#, c-format\n", '"%d of %s lost"', '"Von %2$s fehlen %1$d"'),
        ('#, c-format\nmsgctxt "b"\n', '"%d of %s lost"', '""'),
        ("", '"Press <b>Start</b> &amp; wait."', '"<b>Start</b> drücken &amp; warten."'),
        ('msgctxt "b"\n', '"Press <b>Start</b> &amp; wait."', '""'),
        ("#, fuzzy\n", '"Two dogs run."', '"Falsch."'),
    )
)  # fmt: skip
UNIT = "<trans-unit id='{}'><source>{}</source>{}</trans-unit>"
XLIFF = (
    "<xliff version='1.2'><file source-language='en' target-language='de'><body>"
    + UNIT.format(
        1, "<g id='1'>Open the <x id='2'/>door</g>", "<target><g id='1'>Tür <x id='2'/>auf</g></target>"
    )
    + UNIT.format(2, "<g id='7'>Open the <x id='2'/>door</g>", "")
    + UNIT.format(3, "Open the <x id='2'/>door", "<target state='new'>Open the door</target>")
    + "</body></file></xliff>"
)
SEGMENTS = """<xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>One dog. Two dogs.</source>
<seg-source><mrk mtype="seg" mid="1">One dog.</mrk> <mrk mtype="seg" mid="2">Two dogs.</mrk></seg-source>
<target><mrk mtype="seg" mid="1">Ein Köter.</mrk> <mrk mtype="seg" mid="2"></mrk></target></trans-unit>
<trans-unit id="2"><source>One dog.</source></trans-unit></body></file></xliff>
"""
VERSION_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="1">
<segment><source><pc id="1">One dog.</pc></source><target><pc id="1">Ein Köter.</pc></target></segment>
<segment><source>One dog.</source></segment></unit></file></xliff>
"""


def completed(translator: uwaga.Translator, path: Path) -> str:
    """Return the text of a document translated with the document itself as its memory."""
    output = path.with_stem("completed")
    translate_file(translator, path, output, request=Request("", memory=path))
    return output.read_text(encoding="utf-8")


def test_repeated_po_entries_get_the_existing_translation(translator, tmp_path):
    path = tmp_path / "de.po"
    path.write_text(CATALOGUE, encoding="utf-8")
    entries = completed(translator, path).split("\n\n")
    translations = [entry.rpartition("msgstr ")[2].strip() for entry in entries[1:]]
    assert translations[0:3] == ['"Ö&ffnen"', '"&Öffnen"', '"Öffnen"']
    assert translations[3:5] == ['"Schluss (&Q)"', '"Schluss"']
    assert translations[5] == translations[6]
    assert translations[7] == translations[8]
    assert translations[9] != '"Falsch."'


def test_repeated_xliff_units_get_the_translation_with_their_inline_codes(translator, tmp_path):
    path = tmp_path / "de.xlf"
    path.write_text(XLIFF, encoding="utf-8")
    result = completed(translator, path)
    assert "<target><g id='7'>Tür <x id='2'/>auf</g></target>" in result
    assert "<target state='translated'>Tür <x id='2'/>auf</target>" in result


@pytest.mark.parametrize("document", [SEGMENTS, VERSION_2])
def test_repeated_xliff_segments_get_the_existing_translation(translator, tmp_path, document):
    path = tmp_path / "de.xlf"
    path.write_text(document, encoding="utf-8")
    assert "<target>Ein Köter.</target>" in completed(translator, path)


def test_compressed_tsv_file_can_be_used_as_a_memory(translator, tmp_path):
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(b"Two dogs run.\tZwei Hunde rennen los.\nno translation\t\n"))
    memory = open_memory(path, ("en", "de"))
    assert memory.note == f"{path}: 1 pairs; skipped 1: no translation (1)"
    assert translator.translate("Two dogs run.", memory=memory).text == "Zwei Hunde rennen los."
    assert translator.translate("Two dogs run.", memory=path).text == "Zwei Hunde rennen los."


def test_similar_pairs_of_a_file_are_retrieved(translator, tmp_path):
    path = tmp_path / "pairs.tsv"
    pair = "A man in a red shirt is sleeping.", "Ein Herr im roten Hemd schlummert."
    path.write_text("\t".join(pair), encoding="utf-8")
    text = "A man in a red shirt is singing."
    memory = open_file(path, ("en", "de"))
    assert [remembered.source for remembered in look_up(translator, text, path).pairs] == [pair[0]]
    translated = [translator.translate(text, memory=argument).text for argument in (path, memory)]
    assert translated[0] == translated[1]
    assert list(memory.path.parent.glob("*-states"))
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.tsv"]


def test_pairs_cannot_be_added_to_a_file_of_translations(translator, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("One dog.\tEin Hund.\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"pairs\.tsv is a file of translations"):
        translator.confirm("Two dogs.", "Zwei Hunde.", memory=path)
    with pytest.raises(SettingsError, match="languages of a file of translations are required"):
        open_memory(path)


def test_temporary_memory_is_removed(tmp_path):
    path = tmp_path / "de.po"
    path.write_text(CATALOGUE, encoding="utf-8")
    memory = open_file(path, ("src", "tgt"))
    folder = memory.path.parent
    assert len(memory) == 4 and folder.is_dir()
    memory.close()
    del memory
    gc.collect()
    assert not folder.exists()


def test_translation_file_in_another_target_language_is_refused(translator, tmp_path):
    path = tmp_path / "fr.po"
    path.write_text(CATALOGUE.replace("Language: de", "Language: fr"), encoding="utf-8")
    with pytest.raises(DataError, match=r"fr\.po.*Language: fr"):
        translator.translate("Two dogs run.", memory=path)
    with pytest.raises(DataError, match=r"none\.po: there is no such file"):
        translator.translate("Two dogs run.", memory=tmp_path / "none.po")


def test_command_line_reports_the_number_of_pairs_read_from_the_file(tmp_path):
    path = tmp_path / "de.po"
    path.write_text(CATALOGUE, encoding="utf-8")
    error = run_uwaga("translate-file", path, tmp_path / "new.po", "--memory", path).stderr
    assert f"memory: {path}: 4 pairs; skipped 6: not translated (6)\n" in error
    assert "verbatim)\n" in error

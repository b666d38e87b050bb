"""The context of a text selects among pairs with the same source: in lines, documents and HTML."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import uwaga
from uwaga.cli.main import main
from uwaga.results.translation import Translation
from uwaga.translator.layers.memory import FromMemory
from uwaga.translator.memories import TextContext, contexts_in_order
from uwaga.translator.plan import make_plan
from uwaga.translator.request import Request
from uwaga.translator.text import Text
from uwaga_documents import DocumentOptions, document_job, translate_file
from uwaga_documents.job import document_texts
from uwaga_memory import Memory, Pair

PAIRS = [
    Pair("Open", "Öffnen", key="menu", before="File", after="Close"),
    Pair("Open", "Geöffnet", key="state", before="Close"),
    Pair("Open", "Auf"),  # the newest
]
DOCUMENTS_WITH_KEYS = {
    "a.po": 'msgctxt "menu"\nmsgid "Open"\nmsgstr ""\n\nmsgctxt "state"\nmsgid "Open"\nmsgstr ""\n',
    "a.xlf": """<xliff version="1.2"><file><body>
        <trans-unit id="1" resname="menu"><source>Open</source></trans-unit>
        <trans-unit id="2"><source>Open</source><context-group>
          <context context-type="x-gettext-msgctxt">state</context></context-group></trans-unit>
        </body></file></xliff>""",
    "b.xlf": """<xliff version="2.0" srcLang="en"><file id="f">
        <unit id="1" name="menu"><segment><source>Open</source></segment></unit>
        <unit id="2" name="state"><segment><source>Open</source></segment></unit></file></xliff>""",
    "a.json": '{"menu": "Open", "state": "Open"}',
    "a.yaml": "menu: Open\nstate: Open\n",
    "a.arb": '{"menu": "Open", "state": "Open"}',
    "strings.xml": """<resources><string name="menu">Open</string>
        <string-array name="state"><item>Open</item></string-array></resources>""",
    "a.strings": '"menu" = "Open";\n"state" = "Open";\n',
    "a.stringsdict": """<plist><dict><key>menu</key><dict><key>other</key><string>Open</string></dict>
        <key>state</key><dict><key>other</key><string>Open</string></dict></dict></plist>""",
    "a.csv": "id,text\nmenu,Open\nstate,Open\n",
}
DOCUMENTS_WITHOUT_KEYS = {
    "a.txt": "File\n\nOpen\n\nClose\n\nOpen\n",
    "a.html": "<p>File<p>Open<p>Close<p>Open",
    "a.md": "# File\n\nOpen\n\n> Close\n\n- Open\n",
}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = Memory.create(tmp_path / "a.uwm", "en", "de")
    memory.add(PAIRS)
    return memory


@pytest.mark.parametrize("batch", [1, 512])
@pytest.mark.parametrize(("name", "content"), [*DOCUMENTS_WITH_KEYS.items(), *DOCUMENTS_WITHOUT_KEYS.items()])
def test_document_texts_are_matched_by_key_or_neighbouring_texts(
    translator: uwaga.Translator, memory: Memory, tmp_path: Path, name: str, content: str, batch: int
) -> None:
    source, target = tmp_path / name, tmp_path / f"translated-{name}"
    source.write_text(content, encoding="utf-8")
    options = DocumentOptions(columns=("text",) if name == "a.csv" else ())
    request = Request("", memory=memory, threshold=100)
    report = translate_file(translator, source, target, options=options, request=request, batch=batch)
    translated = target.read_text(encoding="utf-8")
    assert [use.score for use in report.memory] == [101.0, 101.0]
    assert 0 < translated.index("Öffnen") < translated.index("Geöffnet")


def test_keys_of_nested_values_are_paths_of_limited_length(tmp_path: Path) -> None:
    def keys(content: str) -> list[str]:
        (tmp_path / "a.json").write_text(content)
        job = document_job(tmp_path / "a.json", tmp_path / "b.json")
        return [text.context.key for text in document_texts(job) if text.context]

    assert keys('{"menu": {"file": ["Open", "Close"]}, "title": "A title"}') == [
        "menu.file.0",
        "menu.file.1",
        "title",
    ]
    name = "k" * 600
    assert keys(f'{{"{name}": {{"{name}": {{"a": "Open"}}}}}}') == [""]


def test_blank_texts_are_skipped_as_context() -> None:
    texts = ["", "A", " ", "B", ""]
    assert list(contexts_in_order(texts, TextContext("k", "0", "9"))) == [
        TextContext("k", "0", "A"), TextContext("k", "0", "B"), TextContext("k", "A", "B"),
        TextContext("k", "A", "9"), TextContext("k", "B", "9"),
    ]  # fmt: skip
    assert list(contexts_in_order([])) == []


def test_adjacent_html_texts_are_context_for_each_other(translator: uwaga.Translator, memory: Memory) -> None:
    result = translator.translate(DOCUMENTS_WITHOUT_KEYS["a.html"], memory=memory, format="html")
    assert [use.target for use in result.memory] == ["Öffnen", "Geöffnet"]


@pytest.mark.parametrize("chunk_lines", [1, 2, 1024])
def test_adjacent_lines_of_a_file_are_context_for_each_other(
    memory: Memory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    chunk_lines: int,
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("File\nOpen\n\nClose\nOpen\n", encoding="utf-8")
    monkeypatch.setattr("uwaga.cli.lines.CHUNK_LINES", chunk_lines)

    def translated() -> list[str]:
        with pytest.raises(SystemExit):
            main(["translate", "--input", str(path), "--memory", str(memory.path), "--threshold", "100"])
        return capsys.readouterr().out.splitlines()[1::3]

    assert translated() == ["Öffnen", "Geöffnet"]
    monkeypatch.setattr("uwaga.cli.translate.is_complete", lambda texts, path: False)  # a pipe
    assert translated() == ["Auf", "Auf"]


def test_repeated_texts_without_a_memory_match_are_translated_once(translator: uwaga.Translator) -> None:
    class CountingModel:
        count = 0

        def translate(self, texts: Sequence[Text]) -> None:
            self.count += len(texts)
            for text in texts:
                text.translation = Translation(text.words.upper(), 0.0, (), ())

    class EmptyMemory:
        def matches(self, text: str, context=None, *, threshold: float, limit: int) -> list:
            return []

    layer, texts = CountingModel(), [Text((word,), word) for word in ("one", "two", "one")]
    plan = make_plan(translator.models, translator.languages, Request("", memory=EmptyMemory()), ())
    FromMemory(layer, plan, plan.memory).translate(texts)
    assert ([text.result.text for text in texts], layer.count) == (["ONE", "TWO", "ONE"], 2)

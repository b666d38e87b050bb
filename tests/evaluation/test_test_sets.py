"""Test sets of sacreBLEU's catalogue, read from a temporary folder that replaces its cache."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from command_line import run_uwaga
from sacrebleu.dataset import DATASETS

from uwaga.errors import DataError, SettingsError
from uwaga.evaluation.test_sets import read_catalogue_set

SOURCES = ["A dog sleeps.", "Two cats play."]
REFERENCES = ["Ein Hund schläft.", "Zwei Katzen spielen."]
OTHER_REFERENCES = ["Ein Hund ist am Schlafen.", "Zwei spielende Katzen."]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache folder of sacreBLEU; no network is available for downloads."""
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))
    for dataset in DATASETS.values():
        monkeypatch.setattr(dataset, "_outdir", str(tmp_path / dataset.name))
        monkeypatch.setattr(dataset, "_rawdir", str(tmp_path / dataset.name / "raw"))

    def offline(*_: object, **__: object) -> None:
        raise OSError("network is unreachable")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    return tmp_path


def write_set(name: str, pair: str, **fields: list[str]) -> None:
    """Write the files of a downloaded test set; fields that are not given get placeholder texts."""
    dataset = DATASETS[name]
    for field in dataset.fieldnames(pair):
        lines = fields.get(
            field.replace(":", "_"), OTHER_REFERENCES if field.startswith("ref") else ["-"] * len(SOURCES)
        )
        path = Path(dataset._get_txt_file_path(pair, field))
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


run = partial(run_uwaga, "evaluate", code=None)


def test_cached_test_set_is_read_without_a_network():
    write_set("wmt17", "en-de", src=SOURCES, ref=REFERENCES)
    test_set = read_catalogue_set("wmt17:en-de")
    assert test_set.sources == SOURCES
    assert [references[0] for references in test_set.references] == REFERENCES
    assert test_set.tokeniser == "13a"


def write_archive(name: str, pair: str, texts: Mapping[str, list[str]]) -> None:
    """Write the XML file of a downloaded test set where sacreBLEU unpacks it."""
    source, target = pair.split("-")
    body = "".join(
        f'<{"ref" if author else "src"} lang="{target if author else source}" translator="{author}"><p>'
        + "".join(f'<seg id="{number}">{line}</seg>' for number, line in enumerate(lines, start=1))
        + f"</p></{'ref' if author else 'src'}>"
        for author, lines in texts.items()
    )
    document = f'<dataset id="x"><doc id="d" origlang="{source}">{body}</doc></dataset>'.encode()
    dataset = DATASETS[name]
    path = Path(dataset._get_langpair_path(pair))
    path.parent.mkdir(parents=True)
    path.write_bytes(document)
    (Path(dataset._rawdir) / dataset._get_tarball_filename(dataset.data[0])).write_bytes(b"unpacked")


def test_references_of_an_xml_test_set_are_read():
    write_archive("wmt24", "en-de", {"": SOURCES, "refA": REFERENCES, "refB": OTHER_REFERENCES})
    test_set = read_catalogue_set("wmt24:en-de")
    assert test_set.sources == SOURCES
    assert test_set.references == tuple((line,) for line in REFERENCES)
    with pytest.raises(DataError, match=r"cannot be downloaded: network is unreachable"):
        read_catalogue_set("wmt23:en-de")


@pytest.mark.parametrize(("name", "tokeniser"), [("wmt17:en-zh", "zh"), ("wmt20:en-ja", "ja-mecab")])
def test_bleu_tokeniser_is_selected_by_target_language(name, tokeniser):
    write_set(*name.split(":"), src=SOURCES)
    assert read_catalogue_set(name).tokeniser == tokeniser


def test_unknown_test_set_error_suggests_similar_names():
    with pytest.raises(SettingsError, match="unknown test set 'wtm24'; did you mean wmt24"):
        read_catalogue_set("wtm24:en-de")
    with pytest.raises(
        SettingsError, match="wmt24 needs a language pair: wmt24:FROM-TO; known: cs-uk, en-cs"
    ):
        read_catalogue_set("wmt24")
    with pytest.raises(SettingsError, match="wmt24 has no language pair 'de-en'; known: cs-uk"):
        read_catalogue_set("wmt24:de-en")
    with pytest.raises(SettingsError, match=r"unknown test set '\.\./\.\./etc/passwd'; known: iwslt17"):
        read_catalogue_set("../../etc/passwd:en-de")


def test_failed_download_error_names_the_cache_folder(folder):
    with pytest.raises(DataError, match=r"cannot be downloaded: network is unreachable.*SACREBLEU") as raised:
        read_catalogue_set("wmt17:en-de")
    assert str(folder) in str(raised.value)


def test_error_logged_by_sacrebleu_is_reported(monkeypatch):
    def damaged(self: object, pair: str) -> None:
        import logging
        import sys

        logging.getLogger("sacrebleu").error("Fatal: MD5 sum of downloaded file was incorrect")
        sys.exit(1)

    monkeypatch.setattr(type(DATASETS["wmt17"]), "process_to_text", damaged)
    with pytest.raises(DataError, match="MD5 sum of downloaded file was incorrect"):
        read_catalogue_set("wmt17:en-de")


def test_incomplete_download_of_a_test_set_is_reported(folder):
    write_set("wmt17", "en-de", src=SOURCES, ref=REFERENCES[:1])
    with pytest.raises(DataError, match=r"has 1 lines but .* has 2.*delete the folder .*wmt17 to download"):
        read_catalogue_set("wmt17:en-de")
    write_set("wmt17", "en-de", src=[], ref=[])
    with pytest.raises(DataError, match=r"wmt17.en-de.src is empty; delete the folder"):
        read_catalogue_set("wmt17:en-de")


def test_evaluating_a_test_set_by_name_equals_evaluating_its_files(tmp_path):
    write_set("wmt17", "en-de", src=SOURCES, ref=REFERENCES)
    hypotheses, references = tmp_path / "out.de", tmp_path / "ref.de"
    hypotheses.write_text("\n".join(OTHER_REFERENCES) + "\n", encoding="utf-8")
    references.write_text("\n".join(REFERENCES) + "\n", encoding="utf-8")
    result = run(str(hypotheses), "--set", "wmt17:en-de", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == json.loads(
        run(str(hypotheses), "-r", str(references), "--json").stdout
    )


def test_echo_option_prints_texts_of_the_test_set():
    write_set("wmt17", "en-de", src=SOURCES, ref=REFERENCES)
    assert run("--set", "wmt17:en-de", "--echo", "source").stdout.splitlines() == SOURCES
    assert run("--set", "wmt17:en-de", "--echo", "reference").stdout.splitlines() == REFERENCES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--echo", "source"], "--echo prints texts of a test set: add --set"),
        (["--set", "wmt17:en-de"], "give a file with translations, or `-` for standard input"),
        (["-"], "give either --reference or --set"),
        (["-", "--set", "wmt17:en-de", "-r", "test.de"], "give either --reference or --set"),
        (["-", "--set", "wmt17:en-de", "--alignments"], "give --reference"),
    ],
)
def test_missing_or_conflicting_options_are_rejected(arguments, message):
    result = run(*arguments, stdin="x\n")
    assert result.exit_code == 2
    assert message in result.stderr

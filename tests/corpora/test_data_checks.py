"""Warnings about a corpus: shifted lines, and languages other than the stated ones."""

import random
from pathlib import Path

import pytest
from command_line import run_uwaga
from toy import toy_settings

from uwaga.training.corpus import prepare_corpora

GERMAN = [
    "Der Hund läuft über die Straße.",
    "Die Frau liest heute ein Buch.",
    "Wir gehen am Abend nach Hause.",
]
ENGLISH = ["The dog runs across the road.", "The woman reads a book.", "We go home in the evening."]


def write_corpus(
    folder: Path, missing: str = "", line: int = 1, languages: tuple[str, str] = ("en", "de")
) -> None:
    """Write ``train.en`` and ``train.de``: file ``missing`` lacks one line, and the other the last line."""
    draw = random.Random(1)
    sides: dict[str, list[str]] = {"en": [], "de": []}
    for _ in range(400):
        numbers = [draw.randrange(3) for _ in range(draw.randint(1, 4))]
        sides["en"].append(" ".join(ENGLISH[number] for number in numbers))
        sides["de"].append(" ".join(GERMAN[number] for number in numbers))
    if missing:
        for name, texts in sides.items():
            del texts[line - 1 if name == missing else -1]
    for name, language in zip(sides, languages, strict=True):
        (folder / f"train.{name}").write_text("\n".join([*sides[language], ""]), encoding="utf-8")


def clean_corpus(folder: Path) -> str:
    files = [folder / "train.en", folder / "train.de", "-o", folder / "out.en", "-o", folder / "out.de"]
    result = run_uwaga("clean", *files, "--from", "en", "--to", "de", "--rules", "length", "--jobs", "1")
    return " ".join(result.output.split())


@pytest.mark.parametrize("line", [1, 200])
@pytest.mark.parametrize(("missing", "longer"), [("en", "de"), ("de", "en")])
def test_corpus_shifted_by_one_line_is_reported(tmp_path: Path, missing: str, longer: str, line: int) -> None:
    write_corpus(tmp_path, missing, line)
    output = clean_corpus(tmp_path)
    [reported_line] = [int(text.split()[0]) for text in output.split("from about line ")[1:]]
    assert abs(reported_line - line) < 15
    assert f"delete the extra line of {tmp_path / 'train'}.{longer}" in output


def test_aligned_corpus_causes_no_warning(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    assert "warning" not in clean_corpus(tmp_path)


def test_texts_in_wrong_languages_are_reported(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    write_corpus(tmp_path, "en", 50, languages=("de", "en"))
    output = clean_corpus(tmp_path)
    assert "train.en: the text is in de, not in en" in output and "train.de: the text is in en" in output
    settings = toy_settings(tmp_path)
    files = [str(tmp_path / "train.en"), str(tmp_path / "train.de")]
    corpora = [settings.data.train[0].model_copy(update={"files": tuple(files)})]
    changes = {"train": corpora, "dev": corpora, "languages": ("en", "de")}
    text = settings.text.model_copy(update={"size": 100})
    settings = settings.model_copy(update={"data": settings.data.model_copy(update=changes), "text": text})
    lines: list[str] = []
    prepare_corpora(settings, lines.append)
    warnings = [text for text in lines if text.startswith("train data: warning: ")]
    assert len(warnings) == 3 and "shifted by one line" in warnings[0] and "is in de" in warnings[1]
    lines_of_reuse: list[str] = []
    prepare_corpora(settings, lines_of_reuse.append)
    assert warnings == [text for text in lines_of_reuse if text.startswith("train data: warning: ")]

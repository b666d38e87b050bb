"""Exercises in other languages: the English exercises with translated texts.

A file, such as ``es/03.yaml``, maps the number of an exercise to its texts. Answers, tolerances and code are
those of the English exercise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from uwaga.errors import SettingsError
from uwaga.settings.parsing import StrictModel, parse
from uwaga.settings.yaml_text import read_yaml
from uwaga_course.exercises import FOLDER, CodeExercise, Exercise, Remark, find_exercise


class Texts(StrictModel):
    """The texts of an exercise in a language, in the order of the English exercise.

    ``remarks`` are the remarks on wrong answers or, in a multiple-choice exercise, on the wrong options.
    ``messages`` are the messages of a program's tests that are not remarks on wrong programs.
    """

    question: Remark
    options: list[Remark] | None = None
    items: list[Remark] | None = None
    rows: list[Remark] | None = None
    columns: list[Remark] | None = None
    remarks: list[Remark]
    messages: list[Remark] | None = None
    otherwise: Remark | None = None
    hint: Remark
    solution: Remark
    because: Remark | None = None


@dataclass(frozen=True)
class ChapterTexts:
    """The texts of the exercises of a chapter in a language.

    Attributes:
        path: the file of the texts.
        by_number: the texts of each exercise by its number.
    """

    path: Path
    by_number: dict[str, Texts]


@cache
def read_texts(path: Path) -> ChapterTexts:
    """Return the texts of the exercises in a file."""
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: must map the numbers of exercises to their texts")
    texts = {str(number): parse(Texts, entry, f"{path}: {number}") for number, entry in values.items()}
    return ChapterTexts(path, texts)


def translate(exercise: Exercise, chapter: ChapterTexts) -> Exercise:
    """Return an English exercise with the texts of ``chapter``.

    Raises:
        SettingsError: a text is missing or superfluous, or a list has a different number of entries.
    """
    location = f"{chapter.path}: {exercise.number}"
    texts = chapter.by_number.get(exercise.number)
    if texts is None:
        raise SettingsError(f"{location} is missing")
    values = exercise.model_dump(exclude_none=True)
    english_texts = _english_texts(values)
    if exercise.kind == "code" and (messages := untriggered_messages(exercise)):
        english_texts["messages"] = messages
    translated_texts = texts.model_dump(exclude_none=True)
    if english_texts.keys() != translated_texts.keys():
        missing_keys = "".join(
            f"; {key} is missing" for key in english_texts.keys() - translated_texts.keys()
        )
        extra_keys = "".join(
            f"; {key} does not belong there" for key in translated_texts.keys() - english_texts.keys()
        )
        raise SettingsError(f"{location}{missing_keys}{extra_keys}")
    for key, text in english_texts.items():
        if isinstance(text, list) and len(text) != len(translated_texts[key]):
            raise SettingsError(
                f"{location}: {key} has {len(translated_texts[key])} entries, but the English exercise "
                f"has {len(text)}"
            )
    translation = _with_texts(values, translated_texts)
    if exercise.kind == "code":
        remarks = [*english_texts["remarks"], *english_texts.get("messages", ())]
        translated_messages = [*translated_texts["remarks"], *translated_texts.get("messages", ())]
        translation["messages"] = dict(zip(remarks, translated_messages, strict=True))
    return type(exercise).model_validate(translation)


def untriggered_messages(exercise: CodeExercise) -> list[str]:
    """Return the messages of the tests of an exercise that none of its wrong programs triggers."""
    remarks = {mistake.remark for mistake in exercise.wrong}
    return [message for message in exercise.remarks if message not in remarks]


def exercise_in(language: str, number: str) -> Exercise:
    """Return the exercise with the given number in a language of the course."""
    exercise = find_exercise(number, language)
    if language == "en":
        return exercise
    chapter = int(exercise.number.partition(".")[0])
    return translate(exercise, read_texts(FOLDER.parent / language / f"{chapter:02}.yaml"))


def _english_texts(values: dict[str, Any]) -> dict[str, str | list[str]]:
    names = ("question", "items", "rows", "columns", "otherwise", "hint", "solution", "because")
    texts: dict[str, Any] = {name: values[name] for name in names if name in values}
    with_remarks = values.get("wrong", values.get("options", ()))
    texts["remarks"] = [entry["remark"] for entry in with_remarks if "remark" in entry]
    if "options" in values:
        texts["options"] = [option["text"] for option in values["options"]]
    return texts


def _with_texts(values: dict[str, Any], translated_texts: dict[str, Any]) -> dict[str, Any]:
    remarks = iter(translated_texts["remarks"])
    translation = values | {
        key: text for key, text in translated_texts.items() if key in values and key != "messages"
    }
    if "options" in values:
        translation["options"] = [
            option | {"text": text} | ({"remark": next(remarks)} if "remark" in option else {})
            for option, text in zip(values["options"], translated_texts["options"], strict=True)
        ]
        return translation
    translation["wrong"] = [mistake | {"remark": next(remarks)} for mistake in values["wrong"]]
    if "items" in values:
        item_texts = dict(zip(values["items"], translated_texts["items"], strict=True))
        translation["wrong"] = [
            mistake | {"answer": [item_texts[item] for item in mistake["answer"]]}
            for mistake in translation["wrong"]
        ]
    return translation

"""Exercises in other languages: the texts of a file laid over the English exercises.

A file, such as ``docs/learn/es/exercises/03.yaml``, maps the number of an exercise to its texts. Numbers,
tolerances and code are those of the English exercise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from uwaga.errors import SettingsError
from uwaga.learn.exercises import Exercise, Remark
from uwaga.settings.parsing import StrictModel, parse
from uwaga.settings.yaml_text import read_yaml


class Texts(StrictModel):
    """The texts of an exercise in a language: those that an exercise of its kind has, in their order.

    ``remarks`` are those on wrong answers or, of a choice, on the options that have one.
    """

    question: Remark
    options: list[Remark] | None = None
    items: list[Remark] | None = None
    rows: list[Remark] | None = None
    columns: list[Remark] | None = None
    remarks: list[Remark]
    otherwise: Remark | None = None
    hint: Remark
    solution: Remark


@dataclass(frozen=True)
class ChapterTexts:
    """The texts of a chapter's exercises by their numbers, and the file that they are from."""

    path: Path
    by_number: dict[str, Texts]


@cache
def read_texts(path: Path) -> ChapterTexts:
    """Return the texts of a file."""
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: expected a mapping of numbers of exercises to their texts")
    texts = {str(number): parse(Texts, one, f"{path}: {number}") for number, one in values.items()}
    return ChapterTexts(path, texts)


def translate(exercise: Exercise, chapter: ChapterTexts) -> Exercise:
    """Return an exercise in the language of a file."""
    where = f"{chapter.path}: {exercise.number}"
    texts = chapter.by_number.get(exercise.number)
    if texts is None:
        raise SettingsError(f"{where} is missing")
    values = exercise.model_dump(exclude_none=True)
    english = _texts_of(values)
    given = texts.model_dump(exclude_none=True)
    if english.keys() != given.keys():
        lacks = "".join(f"; {key} is missing" for key in english.keys() - given.keys())
        extra = "".join(f"; {key} does not belong there" for key in given.keys() - english.keys())
        raise SettingsError(f"{where}{lacks}{extra}")
    for key, text in english.items():
        if isinstance(text, list) and len(text) != len(given[key]):
            raise SettingsError(f"{where}: {key} has {len(given[key])} entries, {len(text)} in English")
    return type(exercise).model_validate(_with_texts(values, given))


def _texts_of(values: dict[str, Any]) -> dict[str, str | list[str]]:
    names = ("question", "items", "rows", "columns", "otherwise", "hint", "solution")
    texts: dict[str, Any] = {name: values[name] for name in names if name in values}
    remarked = values.get("wrong", values.get("options", ()))
    texts["remarks"] = [one["remark"] for one in remarked if "remark" in one]
    if "options" in values:
        texts["options"] = [one["text"] for one in values["options"]]
    return texts


def _with_texts(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    remarks = iter(given["remarks"])
    made = values | {key: text for key, text in given.items() if key in values}
    if "options" in values:
        made["options"] = [
            one | {"text": text} | ({"remark": next(remarks)} if "remark" in one else {})
            for one, text in zip(values["options"], given["options"], strict=True)
        ]
        return made
    made["wrong"] = [one | {"remark": next(remarks)} for one in values["wrong"]]
    if "items" in values:
        named = dict(zip(values["items"], given["items"], strict=True))
        made["wrong"] = [one | {"answer": [named[item] for item in one["answer"]]} for one in made["wrong"]]
    return made

"""The model card of a model that is published: front matter as the Hugging Face hub reads it, and a text."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import yaml

from uwaga.checkpoints.card import UNSTATED, Card
from uwaga.errors import SettingsError, shown
from uwaga.languages.codes import base_language
from uwaga.library.hub import HUB_NAME

_IDENTIFIERS = (
    "apache-2.0 mit afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda "
    "cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by- "
    "nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 "
    "cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 "
    "epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1 lgpl-3.0 isc "
    "lppl-1.3c ms-pl mpl-2.0 odc-by odbl openrail osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl "
    "lgpl-lr other"
)
LICENCES = frozenset(_IDENTIFIERS.split())
"""Identifiers of the hub; the name of another licence stands in ``license_name``."""
ADDED = "<!-- Written by uwaga. -->"
"""Separates the model's own text from what is added to it."""
LANGUAGE = re.compile(r"[a-z]{2,3}")
SCORE = re.compile(r"^\| dev (BLEU|chrF|TER) \| (-?\d{1,9}\.\d{1,9}) \(", re.MULTILINE | re.IGNORECASE)
DEV_DATA = re.compile(r"^\| dev data \| ([^|\n]+?) \|$", re.MULTILINE)
STARTED_FROM = re.compile(r"^\| started from \| ([^|\n]+?) \|$", re.MULTILINE)
LONGEST = 200
"""Characters of a value."""


@dataclass(frozen=True)
class CardFields:
    """Values of a model card, each in place of that of the model's own card.

    Attributes:
        license: an identifier of the Hugging Face hub, such as ``cc-by-4.0``, or the name of another licence.
        datasets: names of the data sets it was trained on.
        base_model: the model that it was made from, ``owner/name``.
        tags: words to find it by, besides those of the model's own card.
        metrics: scores by test set and metric, such as ``{"Tatoeba test": {"bleu": 39.8, "chrf": 58.9}}``.
    """

    license: str | None = None
    datasets: Sequence[str] = ()
    base_model: str | None = None
    tags: Sequence[str] = ()
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("license", "base_model"):
            if (value := getattr(self, name)) is not None:
                _check_text(name, value)
        for name in ("datasets", "tags"):
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise SettingsError(f"{name} must be a list of names, not {shown(values)}")
            for value in values:
                _check_text(name, value)
        if self.license is not None and self.license.strip().lower() in UNSTATED:
            raise SettingsError(
                f"license must name a licence, such as 'cc-by-4.0', not {shown(self.license)}"
            )
        if self.base_model is not None and not HUB_NAME.fullmatch(self.base_model):
            raise SettingsError(
                f"base_model must be a Hugging Face name (owner/model), not {shown(self.base_model)}"
            )
        _check_metrics(self.metrics)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CardFields:
        """Return the fields of a call, given by name."""
        known = [each.name for each in fields(cls)]
        if unknown := sorted(options.keys() - known):
            raise SettingsError(f"unknown field of a card: {unknown[0]!r}; known here: {', '.join(known)}")
        return cls(**{name: value for name, value in options.items() if value is not None})


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST:
        raise SettingsError(f"{name} must be a line of at most {LONGEST} characters, not {shown(value)}")


def _check_metrics(metrics: object) -> None:
    example = '{"Tatoeba test": {"bleu": 39.8}}'
    if not isinstance(metrics, Mapping):
        raise SettingsError(f"metrics must be scores by test set, such as {example}, not {shown(metrics)}")
    for name, scores in metrics.items():
        _check_text("the name of a test set in metrics", name)
        if not isinstance(scores, Mapping) or not scores:
            raise SettingsError(
                f"metrics of {name!r} must be scores by name, such as {example}, not {shown(scores)}"
            )
        for metric, value in scores.items():
            _check_text("the name of a metric", metric)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise SettingsError(f"metrics of {name!r}: {metric} must be a number, not {shown(value)}")


def write_card(
    name: str,
    card: Card,
    given: CardFields,
    languages: tuple[Sequence[str], Sequence[str]],
    longest: int | None,
) -> str:
    """Return the text of a model card.

    Values that are neither given nor stated by the model's own card are left out.

    Args:
        name: of the model.
        card: the model's own card, whose text is kept.
        given: values that replace those of ``card``.
        languages: codes of the languages that it translates from and to.
        longest: most tokens of a sentence, None if there is no limit.
    """
    _check_text("the name of the model", name)
    front = _front(name, card, given, languages)
    own = card.body.partition(ADDED)[0].strip()
    text = own if own.startswith("# ") else f"# {name.rpartition('/')[2]}\n\n{own}".strip()
    added = _sections(name, front, languages, longest)
    values = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    return f"---\n{values}---\n\n{text}\n\n{ADDED}\n\n{added}\n"


def _front(
    name: str, card: Card, given: CardFields, languages: tuple[Sequence[str], Sequence[str]]
) -> dict[str, Any]:
    front: dict[str, Any] = {"library_name": "uwaga", **_licence(card, given)}
    codes = [base_language(code) for code in dict.fromkeys([*languages[0], *languages[1]])]
    if found := [code for code in dict.fromkeys(codes) if LANGUAGE.fullmatch(code)]:
        front["language"] = found
    front["pipeline_tag"] = "translation"
    front["tags"] = list(
        dict.fromkeys(["uwaga", "translation", *_names(card.front.get("tags")), *given.tags])
    )
    if datasets := list(given.datasets) or _names(card.front.get("datasets")):
        front["datasets"] = datasets
    started = STARTED_FROM.search(card.text)
    stated = card.front.get("base_model") or (started and started[1])
    if base := given.base_model or (isinstance(stated, str) and HUB_NAME.fullmatch(stated) and stated):
        front["base_model"] = base
    index = card.front.get("model-index")
    if isinstance(index, list) and not given.metrics:
        front["model-index"] = index
    elif metrics := given.metrics or _measured(card):
        front["model-index"] = [{"name": name.rpartition("/")[2], "results": _results(metrics)}]
    return front


def _licence(card: Card, given: CardFields) -> dict[str, str]:
    licence = given.license or card.licence
    if licence is None:
        raise SettingsError(
            "the model's card states no licence; give the one under which others may use it, such as "
            "license='cc-by-4.0'"
        )
    identifier = re.sub(r"[^a-z0-9.+]+", "-", licence.lower()).strip("-") or "other"
    known = (
        {"license": identifier}
        if identifier in LICENCES
        else {"license": "other", "license_name": identifier}
    )
    link = card.front.get("license_link")
    return known | ({"license_link": link} if given.license is None and isinstance(link, str) else {})


def _names(values: object) -> list[str]:
    return (
        [values]
        if isinstance(values, str)
        else [str(one) for one in values]
        if isinstance(values, list)
        else []
    )


def _measured(card: Card) -> dict[str, dict[str, float]]:
    """Return the scores on the dev set that ``uwaga train`` wrote into a card."""
    data = DEV_DATA.search(card.text)
    scores = {metric.lower(): float(value) for metric, value in SCORE.findall(card.text)}
    return {data[1][:LONGEST]: scores} if data and scores else {}


def _results(metrics: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    return [
        {
            "task": {"type": "translation", "name": "Translation"},
            "dataset": {"type": re.sub(r"\W+", "-", data.lower()).strip("-") or "test", "name": data},
            "metrics": [
                {"type": metric.lower(), "value": value, "name": metric} for metric, value in scores.items()
            ],
        }
        for data, scores in metrics.items()
    ]


def _sections(
    name: str, front: Mapping[str, Any], languages: tuple[Sequence[str], Sequence[str]], longest: int | None
) -> str:
    source, target = (", ".join(codes) or "a language that is not stated" for codes in languages)
    licence = front.get("license_name", front["license"])
    from_what = [
        f"Trained on {', '.join(front['datasets'])}."
        if "datasets" in front
        else "The front matter names no data sets.",
        *([f"Made from {front['base_model']}."] if "base_model" in front else []),
        "The model's own card, above, may say more.",
    ]
    room = (
        "" if longest is None else f" It reads at most {longest} tokens at once; uwaga splits longer texts."
    )
    scores = (
        "The scores in the front matter hold for their test sets; other texts can be translated worse."
        if "model-index" in front
        else "No scores are recorded in the front matter."
    )
    return "\n".join(
        [
            "## Use",
            "",
            "```sh",
            "pip install uwaga huggingface_hub",
            f"uwaga translate --model {shlex.quote(name)} --input source.txt --output target.txt",
            "```",
            "",
            "## Sources",
            "",
            " ".join(from_what),
            "",
            "## Licence",
            "",
            f"{licence}" + (f" ({front['license_link']})" if "license_link" in front else ""),
            "",
            "## Limits",
            "",
            f"The model translates from {source} to {target}.{room} {scores}",
        ]
    )

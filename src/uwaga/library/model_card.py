"""Model cards of published models, with front matter for the Hugging Face Hub."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import yaml

from uwaga.checkpoints.card import UNSTATED_LICENCES, Card
from uwaga.errors import SettingsError, quoted
from uwaga.languages.codes import base_language
from uwaga.library.hub import HUB_NAME

_IDENTIFIERS = (
    "apache-2.0 mit afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda "
    "cc cc0-1.0 cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 "
    "cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 "
    "cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 "
    "epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1 lgpl-3.0 isc "
    "lppl-1.3c ms-pl mpl-2.0 odc-by odbl openrail osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl "
    "lgpl-lr other"
)
HUB_LICENCES = frozenset(_IDENTIFIERS.split())
"""Licence identifiers of the hub; the names of all other licences are written into ``license_name``."""
GENERATED_MARKER = "<!-- Written by uwaga. -->"
"""Text that separates a model card's original text from the generated text."""
LANGUAGE = re.compile(r"[a-z]{2,3}")
SCORE_ROW = re.compile(r"^\| dev (BLEU|chrF|TER) \| (-?\d{1,9}\.\d{1,9}) \(", re.MULTILINE | re.IGNORECASE)
DEV_DATA_ROW = re.compile(r"^\| dev data \| ([^|\n]+?) \|$", re.MULTILINE)
BASE_MODEL_ROW = re.compile(r"^\| started from \| ([^|\n]+?) \|$", re.MULTILINE)
MAX_VALUE_LENGTH = 200
"""Maximum length of a field in characters."""


@dataclass(frozen=True)
class CardFields:
    """Values that override those of the model's original card.

    Attributes:
        license: licence identifier of the Hugging Face Hub, such as ``cc-by-4.0``, or name of another
            licence.
        datasets: names of the data sets that the model was trained on.
        base_model: name of the model from which this model was derived, ``owner/name``.
        tags: tags to add to those of the original card.
        metrics: scores by test set and metric, such as ``{"Tatoeba test": {"bleu": 39.7, "chrf": 58.4}}``.
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
                raise SettingsError(f"{name} must be a list of names, not {quoted(values)}")
            for value in values:
                _check_text(name, value)
        if self.license is not None and self.license.strip().lower() in UNSTATED_LICENCES:
            raise SettingsError(
                f"license must name a licence, such as 'cc-by-4.0', not {quoted(self.license)}"
            )
        if self.base_model is not None and not HUB_NAME.fullmatch(self.base_model):
            raise SettingsError(
                f"base_model must be a Hugging Face name (owner/model), not {quoted(self.base_model)}"
            )
        _check_metrics(self.metrics)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> CardFields:
        """Return the fields given as keyword arguments; None means that a field is not given."""
        names = [card_field.name for card_field in fields(cls)]
        if unknown_names := sorted(options.keys() - names):
            raise SettingsError(
                f"unknown field of a model card: {unknown_names[0]!r}; known fields: {', '.join(names)}"
            )
        return cls(**{name: value for name, value in options.items() if value is not None})


def _check_text(name: str, value: object) -> None:
    if (
        not isinstance(value, str)
        or not value.strip()
        or not value.isprintable()
        or len(value) > MAX_VALUE_LENGTH
    ):
        raise SettingsError(
            f"{name} must be a line of at most {MAX_VALUE_LENGTH} characters, not {quoted(value)}"
        )


def _check_metrics(metrics: object) -> None:
    example = '{"Tatoeba test": {"bleu": 39.7}}'
    if not isinstance(metrics, Mapping):
        raise SettingsError(f"metrics must be scores by test set, such as {example}, not {quoted(metrics)}")
    for name, scores in metrics.items():
        _check_text("the name of a test set in metrics", name)
        if not isinstance(scores, Mapping) or not scores:
            raise SettingsError(
                f"metrics of {name!r} must be scores by name, such as {example}, not {quoted(scores)}"
            )
        for metric, value in scores.items():
            _check_text("the name of a metric", metric)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise SettingsError(f"metrics of {name!r}: {metric} must be a number, not {quoted(value)}")


def write_card(
    name: str,
    card: Card,
    overrides: CardFields,
    languages: tuple[Sequence[str], Sequence[str]],
    max_tokens: int | None,
) -> str:
    """Return the text of a model card.

    Values that are given neither in ``overrides`` nor in the original card are omitted.

    Args:
        name: name of the model.
        card: original card of the model, whose text is kept.
        overrides: values that override those of ``card``.
        languages: codes of the source languages and of the target languages.
        max_tokens: maximum number of tokens of a sentence, None if there is no limit.
    """
    _check_text("the name of the model", name)
    front_matter = _front_matter(name, card, overrides, languages)
    original_text = card.body.partition(GENERATED_MARKER)[0].strip()
    text = (
        original_text
        if original_text.startswith("# ")
        else f"# {name.rpartition('/')[2]}\n\n{original_text}".strip()
    )
    sections = _generated_sections(name, front_matter, languages, max_tokens)
    values = yaml.safe_dump(front_matter, sort_keys=False, allow_unicode=True)
    return f"---\n{values}---\n\n{text}\n\n{GENERATED_MARKER}\n\n{sections}\n"


def _front_matter(
    name: str, card: Card, overrides: CardFields, languages: tuple[Sequence[str], Sequence[str]]
) -> dict[str, Any]:
    front_matter: dict[str, Any] = {"library_name": "uwaga", **_licence_fields(card, overrides)}
    codes = [base_language(code) for code in dict.fromkeys([*languages[0], *languages[1]])]
    if language_codes := [code for code in dict.fromkeys(codes) if LANGUAGE.fullmatch(code)]:
        front_matter["language"] = language_codes
    front_matter["pipeline_tag"] = "translation"
    front_matter["tags"] = list(
        dict.fromkeys(["uwaga", "translation", *_name_list(card.front_matter.get("tags")), *overrides.tags])
    )
    if datasets := list(overrides.datasets) or _name_list(card.front_matter.get("datasets")):
        front_matter["datasets"] = datasets
    base_match = BASE_MODEL_ROW.search(card.text)
    recorded_name = card.front_matter.get("base_model") or (base_match and base_match[1])
    if base := overrides.base_model or (
        isinstance(recorded_name, str) and HUB_NAME.fullmatch(recorded_name) and recorded_name
    ):
        front_matter["base_model"] = base
    index = card.front_matter.get("model-index")
    if isinstance(index, list) and not overrides.metrics:
        front_matter["model-index"] = index
    elif metrics := overrides.metrics or _dev_scores(card):
        front_matter["model-index"] = [{"name": name.rpartition("/")[2], "results": _results(metrics)}]
    return front_matter


def _licence_fields(card: Card, overrides: CardFields) -> dict[str, str]:
    licence = overrides.license or card.licence
    if licence is None:
        raise SettingsError(
            "the model card states no licence; give the licence under which others may use the model, such "
            "as license='cc-by-4.0'"
        )
    identifier = re.sub(r"[^a-z0-9.+]+", "-", licence.lower()).strip("-") or "other"
    values = (
        {"license": identifier}
        if identifier in HUB_LICENCES
        else {"license": "other", "license_name": identifier}
    )
    link = card.front_matter.get("license_link")
    return values | ({"license_link": link} if overrides.license is None and isinstance(link, str) else {})


def _name_list(values: object) -> list[str]:
    return (
        [values]
        if isinstance(values, str)
        else [str(value) for value in values]
        if isinstance(values, list)
        else []
    )


def _dev_scores(card: Card) -> dict[str, dict[str, float]]:
    """Return the validation scores that ``uwaga train`` wrote into a card, by data set and metric."""
    data = DEV_DATA_ROW.search(card.text)
    scores = {metric.lower(): float(value) for metric, value in SCORE_ROW.findall(card.text)}
    return {data[1][:MAX_VALUE_LENGTH]: scores} if data and scores else {}


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


def _generated_sections(
    name: str,
    front_matter: Mapping[str, Any],
    languages: tuple[Sequence[str], Sequence[str]],
    max_tokens: int | None,
) -> str:
    source, target = (", ".join(codes) or "a language that is not stated" for codes in languages)
    licence = front_matter.get("license_name", front_matter["license"])
    provenance = [
        f"Trained on {', '.join(front_matter['datasets'])}."
        if "datasets" in front_matter
        else "The front matter names no data sets.",
        *([f"Made from {front_matter['base_model']}."] if "base_model" in front_matter else []),
        "The model's own card, above, may say more.",
    ]
    length_limit = (
        ""
        if max_tokens is None
        else f" It reads at most {max_tokens} tokens at once; uwaga splits longer texts."
    )
    scores = (
        "The scores in the front matter hold only for their test sets; other texts may be translated worse."
        if "model-index" in front_matter
        else "No scores are recorded in the front matter."
    )
    return "\n".join(
        [
            "## Use",
            "",
            "```sh",
            "pip install 'uwaga[hub]'",
            f"uwaga translate --model {shlex.quote(name)} --input source.txt --output target.txt",
            "```",
            "",
            "## Sources",
            "",
            " ".join(provenance),
            "",
            "## Licence",
            "",
            f"{licence}" + (f" ({front_matter['license_link']})" if "license_link" in front_matter else ""),
            "",
            "## Limits",
            "",
            f"The model translates from {source} to {target}.{length_limit} {scores}",
        ]
    )

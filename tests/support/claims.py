"""Checks of statements about attention in the course, and of the tests of claims in the index."""

import dataclasses
import importlib.util
import inspect
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch
from experiment_scripts import experiment
from stated_numbers import bundled_model
from statements import FENCE, ROOT

from uwaga.models.layers.attention import causal_mask

RELATIONS = {
    "proportional": r"proportional|proporcional|proporcjonaln|成正比",
    "equal": r"\bagree\b|\bequal\b|coinciden|iguales|zgadzają|równe|相等|一致",
}
CONDITIONS = {
    "lengths of product 1": r"multiply to 1|length 1\b|longitud 1\b|długość 1\b|长度(?:都)?[为是] ?1",
    "equal lengths": r"same length|misma longitud|sam(?:ą|ej) długoś|长度相同|长度相等",
    "any lengths": "",
}
"""Conditions on the lengths of queries and keys that a sentence may state, strictest first."""
IF_WORDS = r"\bif\b|\bsi\b|\bjeśli\b|\bgdy\b|如果|只有"


@cache
def relation_holds(relation: str, condition: str) -> bool:
    """Return True if dot products and cosines are always in a relation under a condition on lengths."""
    random = np.random.default_rng(0)
    queries, keys = (random.normal(size=(count, 5)) for count in (3, 4))
    cosines = normalised(queries) @ normalised(keys).T
    if condition != "any lengths":
        queries, keys = 4 * normalised(queries), normalised(keys) / (4 if "1" in condition else 2)
    ratios = (queries @ keys.T) / cosines
    return bool(np.allclose(ratios, 1 if relation == "equal" else ratios[0, 0]))


def normalised(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text in any of the course's languages, each in one line."""
    return [" ".join(part.split()) for part in re.split(r"(?<=[.?!:])\s|(?<=[。？！：])|\n\s*\n", text)]


def wrong_cosine_conditions(text: str) -> list[str]:
    """Return the sentences with wrong conditions for dot products being equal or proportional to cosines.

    A stated condition must be sufficient, and the next weaker condition must not be.
    """
    wrong = []
    conditions = list(CONDITIONS)
    sections = re.split(r"^#+ |^\*\*", text, flags=re.MULTILINE)
    for sentence in itertools.chain(*(sentences(part) for part in sections if re.search(COSINE_WORDS, part))):
        stated = [name for name, words in RELATIONS.items() if re.search(words, sentence)]
        required = [name for name in conditions[:-1] if re.search(CONDITIONS[name], sentence)]
        for relation, condition in itertools.product(
            stated, required if re.search(IF_WORDS, sentence) else ()
        ):
            weaker = conditions[conditions.index(condition) + 1]
            if not relation_holds(relation, condition) or relation_holds(relation, weaker):
                wrong.append(sentence)
    return wrong


COSINE_WORDS = r"[Cc]osin|[Cc]oseno|余弦"
LONGER_WORDS = r"twice as long|doble de larga|dwa razy dłuższ|长度加倍"
TWICE_WORDS = r"\btwice\b|\bdoble\b|\bdwa\b|加倍"
"""Pattern of the words for "twice", which pages use for lengths of keys and for their dot products."""


def wrong_cosine_statements(text: str) -> list[str]:
    """Return wrong statements about dot products and cosines: conditions, effects of length, numbers."""
    prose = FENCE.sub("", text)
    wrong = wrong_cosine_conditions(prose)
    wrong += [
        sentence
        for sentence in sentences(prose)
        if re.search(LONGER_WORDS, sentence) and len(re.findall(TWICE_WORDS, sentence)) < 2
    ]
    line = " ".join(prose.split())
    for listed in re.findall(
        r"cosines of \$h_1\$, \$h_2\$, \$h_3\$ with the state are ([\d., and]+), but", line
    ):
        vectors = [re.search(rf"^{name} = np\.array\((\[.*?\])\)", text, re.MULTILINE) for name in "hs"]
        h, s = (np.array(json.loads(vector[1])) for vector in vectors if vector)
        values = (normalised(h) @ normalised(s)).round(2).tolist()
        if [float(number) for number in re.findall(r"\d+(?:\.\d+)?", listed)] != values:
            wrong.append(f"cosines {values}, not {listed}")
    for formula, number, count in re.findall(
        r"one of them more than `([^`]+)`: ([\d.]+) for (\d+) keys", line
    ):
        code = formula.replace("e²", "math.e**2")
        value = eval(code, {"math": math, "n": int(count)})
        scores = np.array([1, *[-1] * (int(count) - 1)])  # the cosines that favour a key the most
        largest = (np.exp(scores) / np.exp(scores).sum()).max()
        if not math.isclose(value, largest) or f"{value:.2f}" != number:
            wrong.append(f"{formula} = {number}, not {largest}")
    return wrong


class ChangedModel:
    """The bundled model with changed attention or scores, so that a claim about it does not hold."""

    def __init__(self, attention: Callable | None = None, source: str | None = None) -> None:
        self.translator, self.attention, self.source = bundled_model().python, attention, source

    def translate(self, text, **options):
        translation = self.translator.translate(text, **options)
        if self.attention is None or translation.attention is None:
            return translation
        return dataclasses.replace(translation, attention=self.attention(translation.attention))

    def score(self, pairs):
        return self.translator.score([(self.source or source, target) for source, target in pairs])


def cases_without_claim(claim: str) -> Iterator[tuple[str, dict[str, object], dict[str, object]]]:
    """Yield cases in which a claim does not hold: a name, arguments of its test, and names to replace."""
    if claim.startswith("weights show"):
        # every row still sums to one
        looks = ChangedModel(
            attention=lambda weights: weights[:, [0, 1, 2, 3, 5, 4, *range(6, weights.shape[1])]]
        )
        yield "the row shows the noun", {"translator": looks}, {}
        yield "the noun is not used", {"translator": ChangedModel(source="The man reads the letter.")}, {}
    if claim.startswith("a dot product is cosine"):
        cosine = partial(torch.nn.functional.cosine_similarity, dim=-1)
        yield "it is one", {}, {"make_score": lambda *_: lambda q, k: cosine(q[:, None], k[None])}
    if claim.startswith("without the look-ahead mask"):
        hidden = SimpleNamespace(**{**vars(experiment("no_look_ahead")), "all_visible": causal_mask})
        yield "later positions are hidden anyway", {}, {"experiment": lambda _: hidden}


CLAIMS = ("weights show", "a dot product is cosine", "without the look-ahead mask")
"""Claims whose tests are run on cases in which the claims do not hold."""


def claims_without_test(text: str) -> list[str]:
    """Return the claims whose tests pass or cannot run on cases in which the claims do not hold."""
    rows = re.findall(
        r"^\| (.+?) \|.*\| `([^`]+)::(\w+)` \|$", text.partition("### Claims\n")[2], re.MULTILINE
    )
    wrong = [claim for claim in CLAIMS if not any(row[0].startswith(claim) for row in rows)]
    for claim, path, name in rows:
        for case, arguments, replaced in cases_without_claim(claim):
            module = import_test_file(path)
            test = getattr(module, name)
            if {*inspect.signature(test).parameters} != {*arguments} or not {*replaced} <= {*vars(module)}:
                wrong.append(f"{claim}: {name} does not check it")
                continue
            with patch.multiple(module, **replaced) if replaced else nullcontext():
                try:
                    test(**arguments)
                except AssertionError:
                    continue
            wrong.append(f"{claim}: {name} passes although {case}")
    return wrong


@cache
def import_test_file(path: str) -> ModuleType:
    """Import a test file as a separate module."""
    specification = importlib.util.spec_from_file_location(f"claims_{Path(path).stem}", ROOT / path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module

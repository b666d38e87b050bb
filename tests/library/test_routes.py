"""Which installed models are chosen for two languages."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from uwaga.checkpoints.checkpoint import WeightSummary
from uwaga.checkpoints.description import Description
from uwaga.errors import NotInstalledError
from uwaga.languages.codes import same_language
from uwaga.library import installed
from uwaga.library.installed import InstalledModel, Origin, mean_score
from uwaga.library.routes import MAX_MODELS, find_route
from uwaga.server import served_models
from uwaga.server.settings import ModelSettings
from uwaga.translator import choose_models as model_selection


def model(name, sources, targets, parameters=10, kind="hub", place="/nowhere", sound=True):
    found = Description(
        place=place,
        format="uwaga",
        family="transformer",
        sizes={},
        weights=WeightSummary(parameters, 4 * (parameters or 1), ("F32",)),
        vocabulary=(),
        languages=(tuple(sources.split()), tuple(targets.split())),
        licence=None,
        decoding={},
    )
    size = 4 * (parameters or 1)
    if not sound:
        return InstalledModel(name, kind, place, size, None, ("broken",))
    return InstalledModel(name, kind, place, size, found)


def names(route):
    return None if route is None else [leg.model.name for leg in route]


EN_PT, PT_EN, EN_DE = model("en-pt", "en", "pt"), model("pt-en", "pt", "en"), model("en-de", "en", "de")
MANY = model("many", "de_DE en_XX pt_XX", "de_DE en_XX pt_XX", 600)


def test_a_direct_model_comes_before_a_chain():
    both = [PT_EN, EN_DE, model("pt-de", "pt", "de", 1)]
    assert names(find_route("pt", "de", both)) == ["pt-de"]
    assert names(find_route("pt", "de", both[:2])) == ["pt-en", "en-de"]
    assert find_route("pt", "de", both[1:2]) is None
    assert find_route("de", "pt", both) is None


@pytest.mark.parametrize(
    "asked", [("en", "pt"), ("en_XX", "pt_BR"), ("eng_Latn", "por_Latn"), ("EN", "PT-br")]
)
@pytest.mark.parametrize(
    "has", [("en", "pt"), ("en_GB", "pt_PT"), ("eng_Latn", "por_Latn"), ("en_XX", "pt_XX")]
)
def test_the_codes_of_a_language_match(asked, has):
    [leg] = find_route(*asked, [EN_DE, model("this", *has)])
    assert (leg.model.name, leg.source, leg.target) == ("this", *has)


def test_of_several_codes_the_one_that_is_asked_for_is_taken():
    chinese = model("many", "eng_Latn zho_Hans zho_Hant", "eng_Latn zho_Hans zho_Hant")
    assert find_route("en", "zho_Hant", [chinese])[0].target == "zho_Hant"
    assert find_route("en", "zh-Hant", [chinese])[0].target == "zho_Hant"
    assert find_route("en", "zh", [chinese])[0].target == "zho_Hans"
    assert find_route("en", "zh_Hant", [model("one", "en", "zh_Hans")]) is None


def test_a_model_of_many_languages_is_direct_too_behind_one_of_the_pair():
    [leg] = find_route("pt", "de", [PT_EN, EN_DE, MANY])
    assert (leg.model.name, leg.source, leg.target) == ("many", "pt_XX", "de_DE")
    assert names(find_route("en", "pt", [MANY, EN_PT])) == ["en-pt"]


def test_the_larger_then_the_newest_is_chosen_and_the_demonstration_last(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for age, place in enumerate((new, old)):
        place.mkdir()
        os.utime(place, (1e9 - age, 1e9 - age))
    few = [
        model("bundled", "en", "de", 900, kind="bundled"),
        model("many", "en de fr", "en de fr", 800),
        model("small", "en", "de", 10),
        model("large old", "en", "de", 20, place=str(old)),
        model("large new", "en", "de", 20, place=str(new)),
    ]
    order = ["large new", "large old", "small", "many", "bundled"]
    assert [one.name for one in sorted(few, key=lambda one: one.rank, reverse=True)] == order
    for models in itertools.permutations(few):
        left = list(models)
        for name in order:
            assert names(find_route("en", "de", left)) == [name]
            left = [one for one in left if one.name != name]


def scored(name, score, parameters):
    """A model that its catalogue tells of, and nothing else."""
    origin = Origin(
        name=name,
        source="firefox",
        source_languages=("en",),
        target_languages=("de",),
        metrics={"flores bleu": score, "flores comet22": 0.8, "flores latency": 900},
        parameters=parameters,
    )
    return InstalledModel(name, "catalogue", "/nowhere", 5, None, (), origin)


def test_known_scores_count_before_size():
    best, large, unknown = scored("best", 50, 10), scored("large", 40, 20), model("unknown", "en", "de", 99)
    assert mean_score(best.metrics) == pytest.approx(0.65)
    for models in itertools.permutations([best, large, unknown]):
        assert names(find_route("en", "de", models)) == ["best"]
    assert names(find_route("en", "de", [unknown, large])) == ["large"]
    assert large.size == 20 and scored("odd", 1, None).size == 5
    lost = InstalledModel("lost", "catalogue", "/nowhere", 5, None, ("is missing",), best.origin)
    assert names(find_route("en", "de", [unknown, lost])) == ["unknown"]


def test_of_chains_english_comes_first_then_the_best_of_the_weakest():
    french = [model("pt-fr", "pt", "fr", 90), model("fr-de", "fr", "de", 90)]
    spanish = [model("pt-es", "pt", "es", 900), model("es-de", "es", "de", 80)]
    assert names(find_route("pt", "de", [*french, *spanish, PT_EN, EN_DE])) == ["pt-en", "en-de"]
    assert names(find_route("pt", "de", [*spanish, *french])) == ["pt-fr", "fr-de"]


def test_what_lies_between_may_be_said():
    models = [PT_EN, EN_DE, EN_PT, MANY, model("pt-de", "pt", "de"), model("de-pt", "de", "pt")]
    assert names(find_route("pt", "de", models, ["en"])) == ["pt-en", "en-de"]
    assert names(find_route("pt", "pt", models, ["en"])) == ["pt-en", "en-pt"]
    assert names(find_route("pt", "pt", models, ["en", "de"])) == ["pt-en", "en-de", "de-pt"]
    assert find_route("pt", "de", models, ["fr"]) is None


def test_the_shortest_chain_is_found_and_none_goes_in_circles():
    """Against trying every order of every few models."""
    codes = "aaa bbb ccc ddd eee"
    pairs = ["aaa-bbb", "bbb-aaa", "bbb-ccc", "ccc-ddd", "ddd-eee", "ccc-bbb", "eee-aaa"]
    models = [model(pair, *pair.split("-")) for pair in pairs]

    def shortest(source, target):
        for count in range(1, MAX_MODELS + 1):
            for way in itertools.permutations(models, count):
                ends = [source, *(one.languages[1][0] for one in way)]
                starts = [one.languages[0][0] for one in way]
                if starts == ends[:-1] and ends[-1] == target:
                    return count
        return None

    for source, target in itertools.permutations(codes.split(), 2):
        route = find_route(source, target, models)
        assert (None if route is None else len(route)) == shortest(source, target)
        passed = [source, *(leg.target for leg in route or ())]
        assert len(set(passed)) == len(passed)
        for one, other in itertools.pairwise(route or ()):
            assert same_language(one.target, other.source)


def test_damaged_models_and_those_without_languages_are_left_out():
    assert find_route("en", "pt", [model("en-pt", "en", "pt", sound=False), model("odd", "", "")]) is None
    assert find_route("en", "en", [model("odd", "en", "en")]) is None
    assert find_route("en", "en", [model("en-de", "en", "de"), model("de-en", "de", "en")]) is None


def test_server_and_command_line_choose_the_same_models(monkeypatch):
    """500 random sets of installed models: of a pair or multilingual, with and without scores."""
    rng = random.Random(27)
    codes = {"en": ["en", "en_XX", "eng_Latn"], "de": ["de", "deu_Latn"], "pl": ["pl"], "ca": ["ca", "ca_XX"]}
    codes |= {"zh_Hans": ["zho_Hans", "zh-Hans"], "zh_Hant": ["zho_Hant", "zh-Hant"], "fr": ["fr"]}
    checkpoint = SimpleNamespace(
        task="translate", languages=SimpleNamespace(stated=("?", "?"), knows=lambda source, target: True)
    )
    monkeypatch.setattr(model_selection, "read_model", lambda place, memory: checkpoint)
    monkeypatch.setattr(served_models, "find_model", Path)

    def random_model(number):
        if rng.random() < 0.15:
            chosen = " ".join(rng.choice(codes[one]) for one in rng.sample(list(codes), rng.randint(3, 5)))
            return model(f"m{number}", chosen, chosen, rng.choice([10, 600]), place=f"/{number}")
        source, target = (rng.choice(codes[one]) for one in rng.sample(list(codes), 2))
        if rng.random() < 0.5:
            return model(f"m{number}", source, target, rng.choice([5, 10]), place=f"/{number}")
        metrics = {"flores bleu": rng.choice([20.0, 30.0])} if rng.random() < 0.7 else {}
        origin = Origin(
            name=f"m{number}",
            source="firefox",
            source_languages=(source,),
            target_languages=(target,),
            metrics=metrics,
            parameters=rng.choice([None, 10]),
        )
        return InstalledModel(f"m{number}", "catalogue", f"/{number}", 5, None, (), origin)

    chains = 0
    for _ in range(500):
        models = [random_model(number) for number in range(rng.randint(1, 8))]
        for module in (installed, served_models):
            monkeypatch.setattr(module, "installed_models", lambda *_, models=models, **__: iter(models))
        served = served_models.ServedLanguages(
            served_models.read_served_models([ModelSettings(name=one.place) for one in models])
        )
        for source, target in itertools.permutations(served.codes, 2):
            try:
                legs = model_selection.choose_models(source, target).legs
            except NotInstalledError:
                legs = ()
            hops = served.route(source, target) or ()
            assert [f"/{leg.model.name[1:]}" for leg in legs] == [hop.model.settings.name for hop in hops]
            assert [(leg.source, leg.target) for leg in legs] == [(hop.source, hop.target) for hop in hops]
            chains += len(hops) > 1
    assert chains > 500

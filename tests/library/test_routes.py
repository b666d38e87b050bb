"""Selection of installed models that translate between two languages."""

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
from uwaga.translator import choose_models as model_selection


def model(name, sources, targets, parameters=10, kind="hub", path="/nowhere", usable=True):
    description = Description(
        place=path, format="uwaga", family="transformer", sizes={},
        weights=WeightSummary(parameters, 4 * (parameters or 1), ("F32",)), vocabulary=(),
        languages=(tuple(sources.split()), tuple(targets.split())), licence=None, decoding={},
    )  # fmt: skip
    size = 4 * (parameters or 1)
    if not usable:
        return InstalledModel(name, kind, path, size, None, ("broken",))
    return InstalledModel(name, kind, path, size, description)


def names(route):
    return None if route is None else [step.model.name for step in route]


EN_PT, PT_EN, EN_DE = model("en-pt", "en", "pt"), model("pt-en", "pt", "en"), model("en-de", "en", "de")
MULTILINGUAL = model("many", "de_DE en_XX pt_XX", "de_DE en_XX pt_XX", 600)


def test_direct_model_is_preferred_to_a_chain_of_models():
    models = [PT_EN, EN_DE, model("pt-de", "pt", "de", 1)]
    assert names(find_route("pt", "de", models)) == ["pt-de"]
    assert names(find_route("pt", "de", models[:2])) == ["pt-en", "en-de"]
    assert find_route("pt", "de", models[1:2]) is None
    assert find_route("de", "pt", models) is None


@pytest.mark.parametrize(
    "requested", [("en", "pt"), ("en_XX", "pt_BR"), ("eng_Latn", "por_Latn"), ("EN", "PT-br")]
)
@pytest.mark.parametrize(
    "model_codes", [("en", "pt"), ("en_GB", "pt_PT"), ("eng_Latn", "por_Latn"), ("en_XX", "pt_XX")]
)
def test_language_codes_of_all_styles_match(requested, model_codes):
    [step] = find_route(*requested, [EN_DE, model("this", *model_codes)])
    assert (step.model.name, step.source, step.target) == ("this", *model_codes)


def test_most_specific_matching_language_code_is_selected():
    chinese = model("many", "eng_Latn zho_Hans zho_Hant", "eng_Latn zho_Hans zho_Hant")
    assert find_route("en", "zho_Hant", [chinese])[0].target == "zho_Hant"
    assert find_route("en", "zh-Hant", [chinese])[0].target == "zho_Hant"
    assert find_route("en", "zh", [chinese])[0].target == "zho_Hans"
    assert find_route("en", "zh_Hant", [model("one", "en", "zh_Hans")]) is None


def test_bilingual_model_is_preferred_to_a_multilingual_one():
    [step] = find_route("pt", "de", [PT_EN, EN_DE, MULTILINGUAL])
    assert (step.model.name, step.source, step.target) == ("many", "pt_XX", "de_DE")
    assert names(find_route("en", "pt", [MULTILINGUAL, EN_PT])) == ["en-pt"]


def test_models_are_ranked_by_size_and_then_by_age(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for age, folder in enumerate((new, old)):
        folder.mkdir()
        os.utime(folder, (1e9 - age, 1e9 - age))
    candidates = [
        model("bundled", "en", "de", 900, kind="bundled"),
        model("many", "en de fr", "en de fr", 800),
        model("small", "en", "de", 10),
        model("large old", "en", "de", 20, path=str(old)),
        model("large new", "en", "de", 20, path=str(new)),
    ]
    order = ["large new", "large old", "small", "many", "bundled"]
    assert [
        candidate.name for candidate in sorted(candidates, key=lambda candidate: candidate.rank, reverse=True)
    ] == order
    for permutation in itertools.permutations(candidates):
        remaining = list(permutation)
        for name in order:
            assert names(find_route("en", "de", remaining)) == [name]
            remaining = [candidate for candidate in remaining if candidate.name != name]


def scored_model(name, score, parameters):
    """Return a model that has scores from a catalogue but no description."""
    origin = Origin(
        name=name, source="firefox", source_languages=("en",), target_languages=("de",),
        metrics={"flores bleu": score, "flores comet22": 0.8, "flores latency": 900}, parameters=parameters,
    )  # fmt: skip
    return InstalledModel(name, "catalogue", "/nowhere", 5, None, (), origin)


def test_benchmark_scores_take_precedence_over_model_size():
    best = scored_model("best", 50, 10)
    large = scored_model("large", 40, 20)
    unknown = model("unknown", "en", "de", 99)
    assert mean_score(best.metrics) == pytest.approx(0.65)
    for models in itertools.permutations([best, large, unknown]):
        assert names(find_route("en", "de", models)) == ["best"]
    assert names(find_route("en", "de", [unknown, large])) == ["large"]
    assert large.size == 20 and scored_model("odd", 1, None).size == 5
    damaged = InstalledModel("lost", "catalogue", "/nowhere", 5, None, ("is missing",), best.origin)
    assert names(find_route("en", "de", [unknown, damaged])) == ["unknown"]


def test_chains_through_english_are_preferred():
    french = [model("pt-fr", "pt", "fr", 90), model("fr-de", "fr", "de", 90)]
    spanish = [model("pt-es", "pt", "es", 900), model("es-de", "es", "de", 80)]
    assert names(find_route("pt", "de", [*french, *spanish, PT_EN, EN_DE])) == ["pt-en", "en-de"]
    assert names(find_route("pt", "de", [*spanish, *french])) == ["pt-fr", "fr-de"]


def test_via_option_selects_the_intermediate_languages():
    models = [PT_EN, EN_DE, EN_PT, MULTILINGUAL, model("pt-de", "pt", "de"), model("de-pt", "de", "pt")]
    assert names(find_route("pt", "de", models, ["en"])) == ["pt-en", "en-de"]
    assert names(find_route("pt", "pt", models, ["en"])) == ["pt-en", "en-pt"]
    assert names(find_route("pt", "pt", models, ["en", "de"])) == ["pt-en", "en-de", "de-pt"]
    assert find_route("pt", "de", models, ["fr"]) is None


def test_route_is_the_shortest_chain_without_cycles():
    """The route equals the result of an exhaustive search."""
    codes = "aaa bbb ccc ddd eee"
    pairs = ["aaa-bbb", "bbb-aaa", "bbb-ccc", "ccc-ddd", "ddd-eee", "ccc-bbb", "eee-aaa"]
    models = [model(pair, *pair.split("-")) for pair in pairs]

    def shortest(source, target):
        for count in range(1, MAX_MODELS + 1):
            for chain in itertools.permutations(models, count):
                ends = [source, *(link.languages[1][0] for link in chain)]
                starts = [link.languages[0][0] for link in chain]
                if starts == ends[:-1] and ends[-1] == target:
                    return count
        return None

    for source, target in itertools.permutations(codes.split(), 2):
        route = find_route(source, target, models)
        assert (None if route is None else len(route)) == shortest(source, target)
        visited = [source, *(step.target for step in route or ())]
        assert len(set(visited)) == len(visited)
        for step, next_step in itertools.pairwise(route or ()):
            assert same_language(step.target, next_step.source)


def test_unusable_models_are_not_part_of_a_route():
    assert find_route("en", "pt", [model("en-pt", "en", "pt", usable=False), model("odd", "", "")]) is None
    assert find_route("en", "en", [model("odd", "en", "en")]) is None
    assert find_route("en", "en", [model("en-de", "en", "de"), model("de-en", "de", "en")]) is None


@pytest.mark.slow
def test_server_and_command_line_choose_the_same_route(monkeypatch):
    """500 random sets of installed models: bilingual or multilingual, with and without scores."""
    served_models = pytest.importorskip("uwaga_server.served_models")
    from uwaga_server.settings import ModelSettings

    rng = random.Random(27)
    codes = {"en": ["en", "en_XX", "eng_Latn"], "de": ["de", "deu_Latn"], "pl": ["pl"], "ca": ["ca", "ca_XX"]}
    codes |= {"zh_Hans": ["zho_Hans", "zh-Hans"], "zh_Hant": ["zho_Hant", "zh-Hant"], "fr": ["fr"]}
    checkpoint = SimpleNamespace(
        task="translate", languages=SimpleNamespace(stated=("?", "?"), supports=lambda source, target: True)
    )
    monkeypatch.setattr(model_selection, "read_model", lambda path, memory: checkpoint)
    monkeypatch.setattr(served_models, "find_model", Path)

    def random_model(number):
        if rng.random() < 0.15:
            selected = " ".join(
                rng.choice(codes[language]) for language in rng.sample(list(codes), rng.randint(3, 5))
            )
            return model(f"m{number}", selected, selected, rng.choice([10, 600]), path=f"/{number}")
        source, target = (rng.choice(codes[language]) for language in rng.sample(list(codes), 2))
        if rng.random() < 0.5:
            return model(f"m{number}", source, target, rng.choice([5, 10]), path=f"/{number}")
        metrics = {"flores bleu": rng.choice([20.0, 30.0])} if rng.random() < 0.7 else {}
        origin = Origin(
            name=f"m{number}", source="firefox", source_languages=(source,), target_languages=(target,),
            metrics=metrics, parameters=rng.choice([None, 10]),
        )  # fmt: skip
        return InstalledModel(f"m{number}", "catalogue", f"/{number}", 5, None, (), origin)

    chains = 0
    for _ in range(500):
        models = [random_model(number) for number in range(rng.randint(1, 8))]
        for module in (installed, served_models):
            monkeypatch.setattr(module, "installed_models", lambda *_, models=models, **__: iter(models))
        served = served_models.ServedLanguages(
            served_models.read_served_models([ModelSettings(name=candidate.path) for candidate in models])
        )
        for source, target in itertools.permutations(served.codes, 2):
            try:
                steps = [chosen.step for chosen in model_selection.choose_models(source, target).steps]
            except NotInstalledError:
                steps = ()
            served_steps = served.route(source, target) or ()
            assert [f"/{step.model.name[1:]}" for step in steps] == [
                served_step.model.settings.name for served_step in served_steps
            ]
            assert [(step.source, step.target) for step in steps] == [
                (served_step.source, served_step.target) for served_step in served_steps
            ]
            chains += len(served_steps) > 1
    assert chains > 500

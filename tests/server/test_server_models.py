"""Models of a server: routes between languages, loading, unloading, and failures."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from pivot_models import with_languages

import uwaga
from uwaga.errors import BusyError, ModelError, SettingsError
from uwaga.languages.names import language_name, public_codes
from uwaga.translator import Request, Translator
from uwaga_server.api_errors import ApiError
from uwaga_server.models import ModelPool
from uwaga_server.served_models import ModelRoute, ServedLanguages, ServedModel, read_served_models
from uwaga_server.service import DetectedLanguage, Service
from uwaga_server.settings import ModelSettings, server_settings

pytestmark = pytest.mark.anyio

TEXT = "A man sleeps."


@pytest.fixture(scope="module")
def bundled() -> Translator:
    return Translator.load(threads=1)


def served_model(name: str, source: str, target: str, **settings: object) -> ServedModel:
    return ServedModel(
        name, ModelSettings.model_validate(settings), tuple(source.split()), tuple(target.split())
    )


def make_service(
    bundled: Translator,
    *models: ServedModel,
    memory: int = 0,
    fails: str = "",
    error: Exception | None = None,
    on_load: Callable[[], object] = lambda: None,
) -> tuple[Service, list[str]]:
    """Return a service whose models are copies of the bundled one, and a list that records loaded models."""
    loaded: list[str] = []

    def load(model: ServedModel) -> Translator:
        if model.name == fails:
            raise error or ModelError("/secret/place: broken")
        loaded.append(model.name)
        on_load()
        return with_languages(bundled, model.sources[0], model.targets[0])

    return Service(models, ModelPool(load, memory)), loaded


def test_direct_models_are_preferred_to_pivots():
    languages = ServedLanguages(
        [
            served_model("a", "pt", "en"),
            served_model("b", "en", "de"),
            served_model("c", "pt", "fr"),
            served_model("d", "fr", "de es"),
        ]
    )
    names = {
        pair: [step.model.name for step in languages.route(*pair) or ()]
        for pair in (("pt", "en"), ("pt", "de"), ("pt", "es"), ("de", "pt"))
    }
    assert names == {
        ("pt", "en"): ["a"],
        ("pt", "de"): ["a", "b"],  # English before French
        ("pt", "es"): ["c", "d"],
        ("de", "pt"): [],
    }
    assert [(language.code, language.targets) for language in languages.sources] == [
        ("en", ("de",)),
        ("fr", ("de", "es")),
        ("pt", ("de", "en", "es", "fr")),
    ]


def test_language_codes_of_any_style_are_resolved():
    languages = ServedLanguages(
        [served_model("nllb", "eng_Latn deu_Latn zho_Hans zho_Hant", "eng_Latn deu_Latn zho_Hans zho_Hant")]
    )
    assert {languages.resolve(code) for code in ("en", "eng", "en_US", "EN-GB", "eng_Latn")} == {"en"}
    assert languages.resolve("zh-Hant") == "zh-Hant"
    assert languages.resolve("xx") is None
    [step] = languages.route("en", "zh-Hant") or ()
    assert (step.source, step.target) == ("eng_Latn", "zho_Hant")
    assert public_codes(["eng_Latn", "zho_Hans", "zho_Hant"]) == {
        "eng_Latn": "en",
        "zho_Hans": "zh-Hans",
        "zho_Hant": "zh-Hant",
    }
    assert (language_name("zh-Hant"), language_name("nb")) == ("Chinese (traditional)", "Norwegian Bokmål")


async def test_pivot_translation_matches_python_api(bundled: Translator):
    service, _ = make_service(bundled, served_model("a", "en", "de"), served_model("b", "de", "fr"))
    expected = with_languages(bundled, "en", "de").then(with_languages(bundled, "de", "fr")).translate(TEXT)
    result = await service.translate([Request(TEXT, target="fr", source="en")])
    assert (result.translations[0].text, result.model) == (expected.text, "a + b")
    await service.close()


async def test_results_for_several_languages_are_in_request_order(bundled: Translator):
    service, _ = make_service(bundled, served_model("a", "en", "de"), served_model("b", "fr", "de"))
    texts = ["This is surely English, is it not?", "Ceci est une phrase en français.", "Das ist auf Deutsch."]
    result = await service.translate([Request(text, target="de") for text in texts])
    assert [text.source for text in result.texts] == ["en", "fr", "de"]
    assert result.translations[2].text == texts[2]
    assert [translation.source for translation in result.translations] == texts
    await service.close()


async def test_concurrent_requests_load_a_model_only_once(bundled: Translator):
    service, loaded = make_service(bundled, served_model("a", "en", "de", preload=False))
    await asyncio.gather(*(service.translate([Request(TEXT, target="de", source="en")]) for _ in range(8)))
    await service.close()
    assert loaded == ["a"]


async def test_cancelled_request_does_not_cancel_loading(bundled: Translator):
    may_load = threading.Event()
    service, loaded = make_service(bundled, served_model("a", "en", "de"), on_load=lambda: may_load.wait(30))
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(service.translate([Request(TEXT, target="de", source="en")]), 0.05)
    may_load.set()
    await service.translate([Request(TEXT, target="de", source="en")])
    await service.close()
    assert loaded == ["a"]


@pytest.mark.parametrize(
    ("error", "message"), [(None, "/secret/place: broken"), (ValueError("a bug"), "ValueError: a bug")]
)
async def test_model_that_fails_to_load_does_not_affect_others(bundled, error, message):
    models = served_model("a", "en", "de"), served_model("b", "fr", "de")
    service, _ = make_service(bundled, *models, fails="b", error=error)
    await service.start()
    assert service.ready
    await service.translate([Request(TEXT, target="de", source="en")])
    with pytest.raises(ApiError) as refused:
        await service.translate([Request(TEXT, target="de", source="fr")])
    assert (refused.value.status, refused.value.code) == (503, "model_unavailable")
    assert refused.value.retry_after
    assert "/secret" not in refused.value.message
    assert service.pool.failures() == {"b": message}
    await service.close()


@pytest.fixture
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each model take 50 MiB."""
    memory_sizes = iter(range(0, 10**12, 50 << 20))
    monkeypatch.setattr("uwaga_server.models._resident_memory", lambda: next(memory_sizes))


async def test_least_recently_used_model_is_unloaded(bundled: Translator, small_models: None):
    models = [
        served_model(name, source, "de", preload=False)
        for name, source in (("a", "en"), ("b", "fr"), ("c", "es"))
    ]
    service, loaded = make_service(bundled, *models, memory=100)
    for source in ("en", "fr", "en", "es", "en"):
        await service.translate([Request(TEXT, target="de", source=source)])
    assert service.pool.loaded_names() == ["a", "c"]
    assert loaded == ["a", "b", "c"]  # b is the least recently used model
    await service.close()


async def test_models_in_use_are_not_unloaded(bundled: Translator, small_models: None):
    models = [served_model(name, source, "de", preload=False) for name, source in (("a", "en"), ("b", "fr"))]
    service, _ = make_service(bundled, *models, memory=60)
    async with service.pool.translator(service.languages.route("en", "de") or ()):
        await service.translate([Request(TEXT, target="de", source="fr")])
        assert service.pool.loaded_names() == ["a", "b"]
    await service.close()


async def test_model_of_a_waiting_request_is_not_unloaded(bundled: Translator, small_models: None):
    """Loading the second model of a route does not unload the first."""
    models = [("a", "en", "de"), ("b", "de", "fr"), ("c", "es", "pt")]
    service, loaded = make_service(
        bundled, *(served_model(*model, preload=False) for model in models), memory=60
    )
    await service.translate([Request(TEXT, target="pt", source="es")])
    requests = [service.translate([Request(TEXT, target="fr", source="en")]) for _ in range(3)]
    await asyncio.gather(*requests)
    assert service.pool.loaded_names() == ["a", "b"]
    await service.translate([Request(TEXT, target="pt", source="es")])
    assert service.pool.loaded_names() == ["c"]
    await service.close()
    assert loaded == ["c", "a", "b", "c"]


def test_models_are_described_without_loading(tmp_path: Path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    first, second = read_served_models([ModelSettings(name="bundled"), ModelSettings(name=str(damaged))])
    assert (first.sources, first.targets, first.problem) == (("en",), ("de",), "")
    assert str(damaged) in second.problem
    with pytest.raises(SettingsError, match="damaged"):
        read_served_models([ModelSettings(name=str(damaged))])


def test_missing_model_error_suggests_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    missing, _ = read_served_models([ModelSettings(name="en-pt"), ModelSettings(name="bundled")])
    assert "uwaga models download en-pt" in missing.problem
    with pytest.raises(SettingsError, match="models download"):
        read_served_models([ModelSettings(name="en-pt")])


def test_errors_in_server_settings_name_the_setting():
    assert server_settings({"models": ["bundled", {"name": "en-pt"}]}, "here").models[1].name == "en-pt"
    with pytest.raises(SettingsError, match=r"here: unknown setting 'ports'; did you mean 'port'"):
        server_settings({"ports": 1}, "here")
    with pytest.raises(SettingsError, match=r"limits.texts"):
        server_settings({"limits": {"texts": 0}}, "here")
    assert uwaga.__version__


async def test_failed_request_cancels_the_translation_of_its_other_texts():
    """The request in one language fails, so the texts in the other language are cancelled."""
    cancelled: list[str] = []

    class FakeTranslator:
        def __init__(self, source: str) -> None:
            self.source = source

        async def run(self, requests: list[Request], **options: object) -> None:
            try:
                await asyncio.sleep(0 if self.source == "en" else 60)
            except asyncio.CancelledError:
                cancelled.append(self.source)
                raise
            raise BusyError("too many")

    class FakePool:
        @asynccontextmanager
        async def translator(self, route: ModelRoute) -> AsyncIterator[FakeTranslator]:
            yield FakeTranslator(route[0].source)

    class FakeService(Service):
        async def sources(self, requests: Sequence[Request]) -> list[DetectedLanguage]:
            return [DetectedLanguage(request.text, 1.0) for request in requests]

    fake_service = FakeService(
        [served_model("a", "en", "pl"), served_model("b", "de", "pl")], cast("ModelPool", FakePool())
    )
    with pytest.raises(ApiError, match="too many"):
        async with asyncio.timeout(20):
            await fake_service.translate([Request(text, target="pl") for text in ("en", "de")])
    assert cancelled == ["de"]


@pytest.mark.slow
def test_closed_service_leaves_no_objects_frozen_for_the_garbage_collector():
    """Objects still frozen at exit would not be freed, and the native core would report leaks."""
    program = (
        "import asyncio, uwaga\n"
        "from uwaga_server.models import ModelPool, loader\n"
        "from uwaga_server.served_models import read_served_models\n"
        "from uwaga_server.service import Service\n"
        "from uwaga_server.settings import ModelSettings\n"
        "class Holder: pass\n"
        "cycle = Holder()\n"
        "cycle.itself, cycle.translator = cycle, uwaga.Translator.load(threads=1)\n"
        "cycle.translator.translate('A man.')\n"
        "async def work():\n"
        "    service = Service(read_served_models([ModelSettings()]), ModelPool(loader(1, False)))\n"
        "    await service.start()\n"
        "    await service.close()\n"
        "asyncio.run(work())\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (process.returncode, process.stderr) == (0, "")

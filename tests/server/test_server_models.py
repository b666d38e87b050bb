"""Models on offer: routes between languages, loading, letting go, and one that fails beside others."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

import uwaga
from uwaga.errors import BusyError, ModelError, SettingsError
from uwaga.languages.names import language_name, offered_codes
from uwaga.server.api_errors import ApiError
from uwaga.server.models import ModelPool
from uwaga.server.served_models import Route, ServedLanguages, ServedModel, read_served_models
from uwaga.server.service import Detected, Service
from uwaga.server.settings import ModelSettings, server_settings
from uwaga.translator import Model, Request, Translator

TEXT = "A man sleeps."


@pytest.fixture(scope="module")
def bundled() -> Translator:
    return Translator.load(threads=1)


def offer(name: str, source: str, target: str, **settings: object) -> ServedModel:
    return ServedModel(
        name, ModelSettings.model_validate(settings), tuple(source.split()), tuple(target.split())
    )


def between(one: Translator, source: str, target: str) -> Translator:
    return Translator(Model(one.decoder, one.source, one.target, one.decoding, (source, target)))


def service(
    bundled: Translator,
    *offers: ServedModel,
    memory: int = 0,
    fails: str = "",
    error: Exception | None = None,
    begin: Callable[[], object] = lambda: None,
) -> tuple[Service, list[str]]:
    """A service whose models are the bundled one by other names, and the names of those it has loaded."""
    loaded: list[str] = []

    def load(one: ServedModel) -> Translator:
        if one.name == fails:
            raise error or ModelError("/secret/place: broken")
        loaded.append(one.name)
        begin()
        return between(bundled, one.sources[0], one.targets[0])

    return Service(offers, ModelPool(load, memory)), loaded


def run(work: Callable[[], object]) -> object:
    return asyncio.run(work())  # type: ignore[arg-type]


def test_routes_are_direct_before_they_are_through_others():
    atlas = ServedLanguages(
        [offer("a", "pt", "en"), offer("b", "en", "de"), offer("c", "pt", "fr"), offer("d", "fr", "de es")]
    )
    names = {
        pair: [hop.model.name for hop in atlas.route(*pair) or ()]
        for pair in (("pt", "en"), ("pt", "de"), ("pt", "es"), ("de", "pt"))
    }
    assert names == {
        ("pt", "en"): ["a"],
        ("pt", "de"): ["a", "b"],  # English before French
        ("pt", "es"): ["c", "d"],
        ("de", "pt"): [],
    }
    assert [(one.code, one.targets) for one in atlas.sources] == [
        ("en", ("de",)),
        ("fr", ("de", "es")),
        ("pt", ("de", "en", "es", "fr")),
    ]


def test_languages_are_known_by_any_code():
    atlas = ServedLanguages(
        [offer("nllb", "eng_Latn deu_Latn zho_Hans zho_Hant", "eng_Latn deu_Latn zho_Hans zho_Hant")]
    )
    assert {atlas.known(code) for code in ("en", "eng", "en_US", "EN-GB", "eng_Latn")} == {"en"}
    assert atlas.known("zh-Hant") == "zh-Hant"
    assert atlas.known("xx") is None
    [hop] = atlas.route("en", "zh-Hant") or ()
    assert (hop.source, hop.target) == ("eng_Latn", "zho_Hant")
    assert offered_codes(["eng_Latn", "zho_Hans", "zho_Hant"]) == {
        "eng_Latn": "en",
        "zho_Hans": "zh-Hans",
        "zho_Hant": "zh-Hant",
    }
    assert (language_name("zh-Hant"), language_name("nb")) == ("Chinese (traditional)", "Norwegian Bokmål")


def test_a_pivot_is_what_the_library_makes(bundled: Translator):
    served, _ = service(bundled, offer("a", "en", "de"), offer("b", "de", "fr"))
    wanted = between(bundled, "en", "de").then(between(bundled, "de", "fr")).translate(TEXT)

    async def work() -> None:
        answer = await served.translate([Request(TEXT, target="fr", source="en")])
        assert (answer.translations[0].text, answer.model) == (wanted.text, "a + b")
        await served.close()

    run(work)


def test_texts_of_several_languages_keep_their_order(bundled: Translator):
    served, _ = service(bundled, offer("a", "en", "de"), offer("b", "fr", "de"))
    texts = ["This is surely English, is it not?", "Ceci est une phrase en français.", "Das ist auf Deutsch."]

    async def work() -> None:
        answer = await served.translate([Request(text, target="de") for text in texts])
        assert answer.sources == ("en", "fr", "de")
        assert answer.translations[2].text == texts[2]
        assert [one.source for one in answer.translations] == texts
        await served.close()

    run(work)


def test_a_model_is_loaded_once_however_many_ask(bundled: Translator):
    served, loaded = service(bundled, offer("a", "en", "de", preload=False))

    async def work() -> None:
        await asyncio.gather(*(served.translate([Request(TEXT, target="de", source="en")]) for _ in range(8)))
        await served.close()

    run(work)
    assert loaded == ["a"]


def test_who_gives_up_waiting_for_a_model_does_not_end_its_loading(bundled: Translator):
    go_on = threading.Event()
    served, loaded = service(bundled, offer("a", "en", "de"), begin=lambda: go_on.wait(30))

    async def work() -> None:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(served.translate([Request(TEXT, target="de", source="en")]), 0.05)
        go_on.set()
        await served.translate([Request(TEXT, target="de", source="en")])
        await served.close()

    run(work)
    assert loaded == ["a"]


@pytest.mark.parametrize(
    ("error", "told"),
    [(None, "/secret/place: broken"), (ValueError("a bug"), "ValueError: a bug")],
)
def test_one_that_fails_does_not_hold_up_the_others(bundled: Translator, error: Exception | None, told: str):
    offers = offer("a", "en", "de"), offer("b", "fr", "de")
    served, _ = service(bundled, *offers, fails="b", error=error)

    async def work() -> None:
        await served.start()
        assert served.ready
        await served.translate([Request(TEXT, target="de", source="en")])
        with pytest.raises(ApiError) as refused:
            await served.translate([Request(TEXT, target="de", source="fr")])
        assert (refused.value.status, refused.value.code) == (503, "model_unavailable")
        assert refused.value.retry_after
        assert "/secret" not in refused.value.message
        assert served.pool.failures() == {"b": told}
        await served.close()

    run(work)


def test_models_go_when_there_is_no_room(bundled: Translator, monkeypatch: pytest.MonkeyPatch):
    taken = iter(range(0, 10**12, 50 << 20))
    monkeypatch.setattr("uwaga.server.models._resident", lambda: next(taken))  # 50 MiB each
    offers = [
        offer(name, source, "de", preload=False) for name, source in (("a", "en"), ("b", "fr"), ("c", "es"))
    ]
    served, loaded = service(bundled, *offers, memory=100)

    async def work() -> None:
        for source in ("en", "fr", "en", "es", "en"):
            await served.translate([Request(TEXT, target="de", source=source)])
        assert served.pool.loaded_names() == ["a", "c"]
        assert loaded == ["a", "b", "c"]  # b was not used for longest
        await served.close()

    run(work)


def test_what_is_in_use_stays(bundled: Translator, monkeypatch: pytest.MonkeyPatch):
    taken = iter(range(0, 10**12, 50 << 20))
    monkeypatch.setattr("uwaga.server.models._resident", lambda: next(taken))
    offers = [offer(name, source, "de", preload=False) for name, source in (("a", "en"), ("b", "fr"))]
    served, _ = service(bundled, *offers, memory=60)

    async def work() -> None:
        async with served.pool.translator(served.languages.route("en", "de") or ()):
            await served.translate([Request(TEXT, target="de", source="fr")])
            assert served.pool.loaded_names() == ["a", "b"]
        await served.close()

    run(work)


def test_what_a_request_waits_for_stays(bundled: Translator, monkeypatch: pytest.MonkeyPatch):
    """The second model of a way is not loaded in the place of the first."""
    taken = iter(range(0, 10**12, 50 << 20))
    monkeypatch.setattr("uwaga.server.models._resident", lambda: next(taken))
    ways = [("a", "en", "de"), ("b", "de", "fr"), ("c", "es", "pt")]
    served, loaded = service(bundled, *(offer(*way, preload=False) for way in ways), memory=60)

    async def work() -> None:
        await served.translate([Request(TEXT, target="pt", source="es")])
        each = [served.translate([Request(TEXT, target="fr", source="en")]) for _ in range(3)]
        await asyncio.gather(*each)
        assert served.pool.loaded_names() == ["a", "b"]
        await served.translate([Request(TEXT, target="pt", source="es")])
        assert served.pool.loaded_names() == ["c"]
        await served.close()

    run(work)
    assert loaded == ["c", "a", "b", "c"]


def test_offers_are_read_without_loading(tmp_path: Path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    one, two = read_served_models([ModelSettings(name="bundled"), ModelSettings(name=str(damaged))])
    assert (one.sources, one.targets, one.problem) == (("en",), ("de",), "")
    assert str(damaged) in two.problem
    with pytest.raises(SettingsError, match="damaged"):
        read_served_models([ModelSettings(name=str(damaged))])


def test_a_pair_without_an_installed_model_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    missing, _ = read_served_models([ModelSettings(name="en-pt"), ModelSettings(name="bundled")])
    assert "uwaga models download en-pt" in missing.problem
    with pytest.raises(SettingsError, match="models download"):
        read_served_models([ModelSettings(name="en-pt")])


def test_settings_name_the_key():
    assert server_settings({"models": ["bundled", {"name": "en-pt"}]}, "here").models[1].name == "en-pt"
    with pytest.raises(SettingsError, match=r"here: unknown setting 'ports'; did you mean 'port'"):
        server_settings({"ports": 1}, "here")
    with pytest.raises(SettingsError, match=r"limits.texts"):
        server_settings({"limits": {"texts": 0}}, "here")
    assert uwaga.__version__


def test_texts_of_a_request_that_has_failed_are_given_up():
    """Those of another language than the one whose model is busy."""
    ended: list[str] = []

    class Translating:
        def __init__(self, source: str) -> None:
            self.source = source

        async def run(self, requests: list[Request], **options: object) -> None:
            try:
                await asyncio.sleep(0 if self.source == "en" else 60)
            except asyncio.CancelledError:
                ended.append(self.source)
                raise
            raise BusyError("too many")

    class Store:
        @asynccontextmanager
        async def translator(self, route: Route) -> AsyncIterator[Translating]:
            yield Translating(route[0].source)

    class Detecting(Service):
        async def sources(self, requests: Sequence[Request]) -> list[Detected]:
            return [Detected(request.text, 1.0) for request in requests]

    ours = Detecting([offer("a", "en", "pl"), offer("b", "de", "pl")], cast("ModelPool", Store()))
    with pytest.raises(ApiError, match="too many"):
        run(
            lambda: asyncio.wait_for(
                ours.translate([Request(text, target="pl") for text in ("en", "de")]), 20
            )
        )
    assert ended == ["de"]


def test_a_closed_service_leaves_nothing_for_the_interpreter_to_report():
    """Frozen objects would outlive the interpreter, and the compiled core would name its leaked functions."""
    program = (
        "import asyncio, uwaga\n"
        "from uwaga.server.models import ModelPool, loader\n"
        "from uwaga.server.served_models import read_served_models\n"
        "from uwaga.server.service import Service\n"
        "from uwaga.server.settings import ModelSettings\n"
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
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")

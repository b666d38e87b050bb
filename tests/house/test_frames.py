"""The way of a text to the search is short, and docs/architecture.md prints it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import uwaga
from uwaga.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
MODEL = ROOT / "tests/support/models/numbers-en-de"

Frames = list[tuple[str, str]]


def printed(title: str) -> Frames:
    """The file and function of each line of the page's block with that title."""
    block = re.search(rf'^```text title="{title}"\n(.*?)^```$', PAGE.read_text("utf-8"), re.M | re.S)
    assert block, f"{PAGE} has no block with the title {title!r}"
    return [tuple(line.split()[:2]) for line in block[1].splitlines()]  # type: ignore[misc]


def walked(frame: FrameType | None) -> Frames:
    """The frames of uwaga from the outermost to ``frame``."""
    found: Frames = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("uwaga."):
            file = module.removeprefix("uwaga.").replace(".", "/") + ".py"
            found.append((file, frame.f_code.co_qualname.replace(".<locals>", "")))
        frame = frame.f_back
    return found[::-1]


def on_command_line(engine: str) -> None:
    with pytest.raises(SystemExit) as done:
        main(["translate", "--engine", engine, "--model", str(MODEL), "forty-two"])
    assert not done.value.code


def in_python(engine: str) -> None:
    uwaga.Translator.load(MODEL, engine=engine).translate("forty-two")


def stack(run: Callable[[str], None], engine: str, monkeypatch: pytest.MonkeyPatch) -> Frames:
    """The deepest stack below ``run``: to the attention in torch, to the core on the native engine."""
    found: list[Frames] = []
    if engine == "native":
        from uwaga.engine import _core

        search: Callable[..., object] = _core.BeamSearch.run

        def watched(*arguments: object) -> object:
            found.append([*walked(sys._getframe(1)), ("engine/_core", "BeamSearch.run")])
            return search(*arguments)

        monkeypatch.setattr(_core.BeamSearch, "run", watched)
        run(engine)
        return found[-1]
    attention = pytest.importorskip("uwaga.models.layers.attention")

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is attention.attend.__code__:
            found.append(walked(frame))

    sys.setprofile(watch)
    try:
        run(engine)
    finally:
        sys.setprofile(None)
    return found[-1]


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_a_text_reaches_the_search_in_a_few_frames(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for run, most in ((on_command_line, 12), (in_python, 8)):
        names = [function for _, function in stack(run, engine, monkeypatch)]
        assert names.index("search") + 1 <= most, names


@pytest.mark.parametrize(("title", "engine"), [("in torch", "torch"), ("on the native engine", "native")])
def test_the_page_prints_frames_of_the_way(title: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = iter(stack(on_command_line, engine, monkeypatch))
    for line in printed(title):
        assert line in frames, f"{PAGE}, {title!r}: {line} is not on the way, or not in this order"


STOREYS = (
    ("errors", "decoder", "results"),
    ("settings", "files", "languages"),
    ("tokenizers", "models", "engine", "search", "alignment"),
    ("checkpoints", "library"),
    ("terms", "markup", "translator", "scheduling", "documents", "data", "training", "evaluation"),
)


def entered(run: Callable[[], object], carries: Callable[[FrameType], bool]) -> tuple[set[str], set[str]]:
    """The modules that calls enter whose arguments carry something, and the calls to a higher storey."""
    modules: set[str] = set()
    climbs: set[str] = set()

    def storey(module: str) -> int:
        return next(at for at, packages in enumerate(STOREYS) if module.split(".")[1] in packages)

    def watch(frame: FrameType, event: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        if event != "call" or not module.startswith("uwaga.") or not carries(frame):
            return
        modules.add(module)
        caller = frame.f_back
        while caller is not None and not str(caller.f_globals.get("__name__", "")).startswith("uwaga."):
            caller = caller.f_back
        above = "" if caller is None else str(caller.f_globals["__name__"])
        if above and storey(module) > storey(above):
            climbs.add(f"{above} to {module}")

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return modules, climbs


def test_a_text_enters_few_files_and_climbs_no_stairs() -> None:
    translator = uwaga.Translator.load(MODEL, engine="native")
    text = "forty-two"
    ids = translator.model.segmenter().ids(text)

    def carries(frame: FrameType) -> bool:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return any(holds(frame.f_locals.get(name)) for name in names)

    def holds(value: object, depth: int = 3) -> bool:
        if isinstance(value, str):
            return text in value
        if isinstance(value, list | tuple):
            return tuple(value) == ids or (depth > 0 and any(holds(one, depth - 1) for one in value))
        return depth > 0 and any(holds(one, depth - 1) for one in getattr(value, "__dict__", {}).values())

    translator.translate(text)
    modules, climbs = entered(lambda: translator.translate(text), carries)
    assert len(modules) <= 20, sorted(modules)
    assert len(climbs) <= 3, climbs


def test_a_name_enters_few_files_until_it_is_a_model() -> None:
    uwaga.load("bundled")
    modules, climbs = entered(lambda: uwaga.load("bundled"), lambda frame: True)
    assert len(modules) <= 40, sorted(modules)
    assert len(climbs) <= 8, climbs

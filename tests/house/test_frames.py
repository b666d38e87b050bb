"""The calls from a text to its translation are few, and documented in docs/architecture.md."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import FrameType

import pytest

import uwaga
from uwaga.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
MODEL = ROOT / "tests/support/models/numbers-en-de"

Frames = list[tuple[str, str]]


def documented_frames(title: str) -> Frames:
    """Return the file and function in each line of the block of the page with the given title."""
    block = re.search(rf'^```text title="{title}"\n(.*?)^```$', PAGE.read_text("utf-8"), re.M | re.S)
    assert block, f"{PAGE} has no block with the title {title!r}"
    return [tuple(line.split()[:2]) for line in block[1].splitlines()]  # type: ignore[misc]


def uwaga_frame(frame: FrameType) -> Frames:
    """Return the file and function of a frame; nothing if it is not a frame of uwaga."""
    module = str(frame.f_globals.get("__name__", ""))
    if not module.startswith("uwaga."):
        return []
    file = module.removeprefix("uwaga.").replace(".", "/") + ".py"
    return [(file, frame.f_code.co_qualname.replace(".<locals>", ""))]


def uwaga_frames(frame: FrameType | None) -> Frames:
    """Return the frames of uwaga from the outermost to ``frame``."""
    frames: Frames = []
    while frame is not None:
        frames += uwaga_frame(frame)
        frame = frame.f_back
    return frames[::-1]


def run_on_command_line(engine: str) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["translate", "--engine", engine, "--model", str(MODEL), "forty-two"])
    assert not exit_info.value.code


def run_in_python(engine: str) -> None:
    uwaga.load(MODEL, engine=engine).translate("forty-two")


def stack(run: Callable[[str], None], engine: str, monkeypatch: pytest.MonkeyPatch) -> Frames:
    """Return the deepest call stack of ``run``, which ends at torch's attention or at the native core."""
    stacks: list[Frames] = []
    if engine == "native":
        from uwaga.engine import _core

        search: Callable[..., object] = _core.BeamSearch.run

        def recorded_run(*arguments: object) -> object:
            stacks.append([*uwaga_frames(sys._getframe(1)), ("engine/_core", "BeamSearch.run")])
            return search(*arguments)

        monkeypatch.setattr(_core.BeamSearch, "run", recorded_run)
        run(engine)
        return stacks[-1]
    attention = pytest.importorskip("uwaga.models.layers.attention")

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is attention.attend.__code__:
            stacks.append(uwaga_frames(frame))

    sys.setprofile(watch)
    try:
        run(engine)
    finally:
        sys.setprofile(None)
    return stacks[-1]


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_call_stack_from_the_text_to_the_search_is_short(engine, monkeypatch) -> None:
    for run, limit in ((run_on_command_line, 13), (run_in_python, 8)):
        names = [function for _, function in stack(run, engine, monkeypatch)]
        assert names.index("search") + 1 <= limit, names


@pytest.mark.parametrize(
    ("title", "engine", "run"),
    [
        ("on the command line", "native", run_on_command_line),
        ("in torch", "torch", run_in_python),
        ("on the native engine", "native", run_in_python),
    ],
)
def test_documented_frames_occur_in_the_call_stack_in_order(title, engine, run, monkeypatch) -> None:
    frames = iter(stack(run, engine, monkeypatch))
    for line in documented_frames(title):
        assert line in frames, f"{PAGE}, {title!r}: {line} is not on the way, or not in this order"


@pytest.mark.parametrize(
    ("title", "run"), [("before the search", run_in_python), ("after the search", run_on_command_line)]
)
def test_documented_calls_are_made_in_order(title: str, run: Callable[[str], None]) -> None:
    calls: Frames = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.extend(uwaga_frame(frame))

    sys.setprofile(watch)
    try:
        run("native")
    finally:
        sys.setprofile(None)
    remaining = iter(calls)
    for line in documented_frames(title):
        assert line in remaining, f"{PAGE}, {title!r}: {line} is not called, or not in this order"


@pytest.mark.parametrize(
    ("title", "folder"), [("in the core, below native/", "native"), ("resuming", "src/uwaga")]
)
def test_documented_functions_exist(title: str, folder: str) -> None:
    for file, function in documented_frames(title):
        text = (ROOT / folder / file).read_text("utf-8")
        definition = f"def {function.split('.')[-1]}" if file.endswith(".py") else function
        assert re.search(rf"\b{definition}\(", text), f"{PAGE}, {title!r}: {file} has no {function}"


LAYERS = (
    ("errors", "decoder", "results"), ("settings", "files", "languages", "plugins"),
    ("tokenizers", "models", "engine", "search", "alignment"), ("checkpoints", "library"),
    ("terms", "markup", "translator", "scheduling", "data", "training", "evaluation"), ("generation",),
    ("loading",),
)  # fmt: skip


@dataclass(frozen=True)
class EnteredModules:
    """The modules that function calls enter, each with the modules that call it."""

    callers: dict[str, set[str]]

    @property
    def calls_to_higher_layers(self) -> list[str]:
        """The calls that go to a higher layer."""
        return [
            f"{caller} to {module}"
            for module, callers in self.callers.items()
            for caller in callers
            if caller and layer(module) > layer(caller)
        ]

    @property
    def returns(self) -> int:
        """Number of times that a module is entered from a module other than the first."""
        return sum(max(0, len(callers) - 1) for callers in self.callers.values())


def layer(module: str) -> int:
    return next(index for index, packages in enumerate(LAYERS) if module.split(".")[1] in packages)


def is_call(frame: FrameType) -> bool:
    """Return True if a frame is the call of a function of uwaga, not of a property or generated method."""
    name, code = str(frame.f_globals.get("__name__", "")), frame.f_code
    if not name.startswith("uwaga.") or "__create_fn__" in code.co_qualname:
        return False
    owner = sys.modules[name]
    for part in code.co_qualname.split("."):
        owner = getattr(owner, part, owner)
    return not isinstance(owner, property)


def trace(run: Callable[[], object], is_relevant: Callable[[FrameType], bool]) -> EnteredModules:
    """Return the modules that calls of uwaga's functions enter while a function runs."""
    entered = EnteredModules({})

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not is_call(frame) or not is_relevant(frame):
            return
        module, caller = str(frame.f_globals["__name__"]), frame.f_back
        while caller is not None and not str(caller.f_globals.get("__name__", "")).startswith("uwaga."):
            caller = caller.f_back
        caller_module = "" if caller is None else str(caller.f_globals["__name__"])
        if caller_module != module:
            entered.callers.setdefault(module, set()).add(caller_module)

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return entered


def test_translation_passes_text_through_few_modules() -> None:
    translator = uwaga.Translator.load(MODEL, engine="native")
    text = "zero-and"  # without number words, which would be compared
    ids = translator.model.segmenter().ids(text)

    def passes_text(frame: FrameType) -> bool:
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return any(contains_text(frame.f_locals.get(name)) for name in names)

    def contains_text(value: object, depth: int = 3) -> bool:
        if isinstance(value, str):
            return text in value
        if isinstance(value, list | tuple):
            return tuple(value) == ids or (
                depth > 0 and any(contains_text(element, depth - 1) for element in value)
            )
        return depth > 0 and any(
            contains_text(element, depth - 1) for element in getattr(value, "__dict__", {}).values()
        )

    translator.translate(text)
    entered = trace(lambda: translator.translate(text), passes_text)
    assert len(entered.callers) <= 20, sorted(entered.callers)
    assert len(entered.calls_to_higher_layers) <= 3, entered.calls_to_higher_layers
    assert entered.returns <= 8, entered.callers


def test_loading_a_model_calls_functions_of_few_modules() -> None:
    uwaga.load("bundled")
    entered = trace(lambda: uwaga.load("bundled"), lambda frame: True)
    assert len(entered.callers) <= 40, sorted(entered.callers)
    assert len(entered.calls_to_higher_layers) <= 8, entered.calls_to_higher_layers


def test_call_stack_from_the_command_line_to_the_softmax_spans_few_files(monkeypatch) -> None:
    files = {file for file, _ in stack(run_on_command_line, "torch", monkeypatch)}
    assert len(files) <= 17, sorted(files)


MAX_CALLS = 125
"""Maximum number of Python function calls per additional text; later Python versions need fewer."""


def test_translating_plain_text_makes_few_function_calls():
    translator = uwaga.Translator.load(MODEL, engine="native", threads=1)
    texts = [" ".join(words) for words in product(("zero", "and"), repeat=3)]
    translator.translate(texts)

    def count_calls(count: int) -> int:
        calls = 0

        def watch(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(watch)
        try:
            translator.translate(texts[:count])
        finally:
            sys.setprofile(None)
        return calls

    assert (count_calls(8) - count_calls(4)) / 4 <= MAX_CALLS

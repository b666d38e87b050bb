"""The path of a sentence is the one that docs/architecture.md prints, frame by frame."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

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


def translate(engine: str) -> None:
    with pytest.raises(SystemExit) as done:
        main(["translate", "--engine", engine, "--model", str(MODEL), "forty-two"])
    assert not done.value.code


def compare(title: str, found: Frames) -> None:
    lines = "\n".join(f"{file:26} {function}" for file, function in found)
    assert printed(title) == found, (
        f"the path has changed; under ## The path of a sentence in docs/architecture.md the block "
        f"{title!r} must have these lines, each with what the frame does behind it:\n\n{lines}\n"
    )


def test_the_path_in_torch_is_the_one_printed() -> None:
    attention = pytest.importorskip("uwaga.models.layers.attention")
    found: list[Frames] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is attention.attend.__code__:
            found.append(walked(frame))

    sys.setprofile(watch)
    try:
        translate("torch")
    finally:
        sys.setprofile(None)
    compare("in torch", found[-1])


def test_the_path_on_the_native_engine_is_the_one_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    from uwaga.engine import _core

    found: list[Frames] = []
    run: Callable[..., object] = _core.BeamSearch.run

    def watched(*arguments: object) -> object:
        found.append([*walked(sys._getframe(1)), ("engine/_core", "BeamSearch.run")])
        return run(*arguments)

    monkeypatch.setattr(_core.BeamSearch, "run", watched)
    translate("native")
    compare("on the native engine", found[-1])

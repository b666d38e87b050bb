"""The lines of ``uwaga --version`` after the version: commit, instruction set and build."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import uwaga
from uwaga.errors import SettingsError, reason

GIT_TIMEOUT = 5
"""Timeout of git in seconds."""


def version_lines() -> Iterator[str]:
    """Yield one line for each property of the installation, with its name and value."""
    try:
        from uwaga.engine._core import ABI, BUILD_TYPE, COMMIT, COMPILED_ISAS, COMPILER, FLAGS, ISAS
        from uwaga.engine.cpu import processor_name, resolve_isa
    except ImportError as error:  # the engine is missing, or from an earlier version
        yield _line("commit", checkout_commit() or "unknown")
        yield _line("engine", f"cannot be loaded: {reason(error)}")
    else:
        yield _line("commit", checkout_commit() or COMMIT)
        yield _line("processor", processor_name())
        try:
            instruction_set = ISAS[resolve_isa()]
        except SettingsError as error:
            instruction_set = str(error)
        yield _line(
            "instruction set", f"{instruction_set} of {' '.join(['portable', *COMPILED_ISAS.split()])}"
        )
        kind = f"{BUILD_TYPE} {FLAGS}".strip()
        yield _line("build", f"{COMPILER}, {kind}, {ABI}")
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    yield _line("python", f"{implementation}, {platform.system()} {platform.machine()}")


def checkout_commit() -> str | None:
    """Return the commit of the git clone that uwaga runs from; None if it is installed or git fails."""
    root = Path(uwaga.__file__).parents[2]
    if not (root / ".git").exists() or not (root / "src/uwaga").is_dir():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GIT_TIMEOUT)  # noqa: S603 (constant arguments)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() or None


def _line(name: str, value: str) -> str:
    return f"{name:<15}  {value}"

"""Chat templates, rendered in Jinja2's sandbox in a process of their own.

A template comes with the model, so it is untrusted: it may run for hours or fill the memory without leaving
the sandbox. The process that renders it has a limit of time and memory, and no file is loaded by it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from uwaga.child_processes import python_command
from uwaga.errors import MissingExtraError, ModelError, shown

SECONDS = 10
"""Most processor time of a rendering, where the system can limit it; real templates take a millisecond."""
LONGEST = 60
"""Most seconds of a rendering, on however busy a machine."""
MEMORY = 1 << 30
"""Bytes that the process may reserve, where the system can limit them."""
MAX_TEMPLATE = 1 << 20
"""Characters of a template; the longest known have 20,000."""
MAX_RENDERED = 1 << 24
"""Characters of a rendered prompt."""
MAX_CACHED = 1 << 16
"""Characters of a template with its messages, of which the prompt is kept."""
NO_JINJA = 3
"""Exit status of a process without Jinja2, or with one that is too old."""
OLDEST_JINJA = (3, 1, 6)
"""The first version from whose sandbox no way out is known (CVE-2024-56326, CVE-2025-27516)."""

Message = Mapping[str, Any]
"""A message of a chat: its ``role``, ``system``, ``user`` or ``assistant``, and its ``content``."""


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a model.

    Attributes:
        text: the template, for Jinja2.
        special: the special tokens that it may name, such as ``bos_token``.
        family: name of the prompt that asks for a translation (:mod:`uwaga.tokenizers.prompt`).
        where: the file that holds it, for messages.
    """

    text: str
    special: Mapping[str, str] = field(default_factory=dict)
    family: str = "chat"
    where: str = "chat template"

    def render(self, messages: Sequence[Message], generate: bool = True) -> str:
        """Return the prompt of a chat.

        Args:
            messages: the chat so far.
            generate: end with what introduces the assistant's next message.
        """
        if len(self.text) > MAX_TEMPLATE:
            raise ModelError(f"{self.where}: the chat template has {len(self.text)} characters: too many")
        # Thinking, for models that can turn it off, would come before the answer.
        values = {**self.special, "messages": list(messages), "enable_thinking": False}
        values["add_generation_prompt"] = generate
        job = json.dumps([self.text, values])
        return (_rendered if len(job) <= MAX_CACHED else _rendered.__wrapped__)(job, self.where)


@lru_cache(32)
def _rendered(job: str, where: str) -> str:
    import signal  # not at start-up: models without a template do not need them
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 (this module)
            python_command("-m", __name__, str(SECONDS)),
            input=job.encode(),
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
        endless = done.returncode < 0 and -done.returncode == getattr(signal, "SIGXCPU", None)
    except subprocess.TimeoutExpired:
        endless = True
    if endless:
        raise ModelError(f"{where}: the chat template does not end within {SECONDS} seconds")
    if done.returncode == NO_JINJA:
        version = ".".join(map(str, OLDEST_JINJA))
        needed = f"needs jinja2 {version} or newer; `pip install 'uwaga[train]'`"
        raise MissingExtraError(f"{where}: a chat template {needed}")
    try:
        text, problem = json.loads(done.stdout)
    except ValueError:
        problem = "it needs too much memory"
    if problem is not None:
        raise ModelError(f"{where}: the chat template cannot be rendered: {problem}")
    return str(text)


def _main() -> int:
    """Render the template on standard input; print the prompt and the error, one of them null."""
    seconds = int(sys.argv[1])
    try:
        from resource import RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, setrlimit  # not on Windows
    except ImportError:
        pass
    else:
        setrlimit(RLIMIT_AS, (MEMORY, MEMORY))
        setrlimit(RLIMIT_CPU, (seconds, seconds + 1))
        setrlimit(RLIMIT_CORE, (0, 0))  # its end by the limit is no crash to keep
    try:
        from importlib.metadata import version

        from jinja2.exceptions import TemplateError

        if tuple(map(int, re.findall(r"\d+", version("jinja2"))[:3])) < OLDEST_JINJA:
            return NO_JINJA
    except ImportError:
        return NO_JINJA
    text, values = json.load(sys.stdin)
    try:
        rendered, problem = _render(text, values), None
        if len(rendered) > MAX_RENDERED:
            rendered, problem = "", f"its prompt has {len(rendered)} characters"
    except MemoryError:
        rendered, problem = "", "it needs too much memory"
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        rendered, problem = "", shown(f"{type(error).__name__}: {error}")
    json.dump([rendered, problem], sys.stdout)
    return 0


def _render(text: str, values: dict[str, Any]) -> str:
    from datetime import datetime

    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: object) -> None:
        raise TemplateError(str(message))

    def tojson(value: object, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    # The settings, filters and functions that templates are written for (Hugging Face, "Chat templates").
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(text).render(**values)


if __name__ == "__main__":
    sys.exit(_main())

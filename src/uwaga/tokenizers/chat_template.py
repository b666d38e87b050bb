"""Chat templates, rendered in Jinja2's sandbox in a separate process.

A template is part of the model and therefore untrusted: it may run for hours or fill the memory without
leaving the sandbox. The process that renders it has limits on time and memory, and loads no files.
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
from uwaga.errors import MissingExtraError, ModelError, quoted

MAX_PROCESSOR_SECONDS = 10
"""Maximum processor time of a rendering in seconds, if the system can limit it.

Real templates take a millisecond.
"""
MAX_SECONDS = 60
"""Maximum wall-clock time of a rendering in seconds, enough even on a busy machine."""
MAX_MEMORY = 1 << 30
"""Maximum size in bytes of the process's address space, if the system can limit it."""
MAX_TEMPLATE_CHARACTERS = 1 << 20
"""Maximum number of characters of a template; the longest known have 20,000."""
MAX_PROMPT_CHARACTERS = 1 << 24
"""Maximum number of characters of a rendered prompt."""
MAX_CACHED_CHARACTERS = 1 << 16
"""Maximum number of characters of a template together with its messages, if their prompt is to be cached."""
NO_JINJA_STATUS = 3
"""Exit status of a process without Jinja2 or with a version that is too old."""
MIN_JINJA_VERSION = (3, 1, 6)
"""The first version without known escapes from the sandbox (CVE-2024-56326, CVE-2025-27516)."""

Message = Mapping[str, Any]
"""A message of a chat: its ``role``, ``system``, ``user`` or ``assistant``, and its ``content``."""


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a model.

    Attributes:
        text: the template, for Jinja2.
        special: the special tokens that the template may use, by name, such as ``bos_token``.
        family: name of the prompt that asks for a translation (:mod:`uwaga.tokenizers.prompt`).
        location: the file of the template, for messages.
    """

    text: str
    special: Mapping[str, str] = field(default_factory=dict)
    family: str = "chat"
    location: str = "chat template"

    def render(self, messages: Sequence[Message], generate: bool = True) -> str:
        """Return the prompt of a chat.

        Args:
            messages: the chat so far.
            generate: whether the prompt ends with the introduction of the assistant's next message.
        """
        if len(self.text) > MAX_TEMPLATE_CHARACTERS:
            raise ModelError(f"{self.location}: the chat template is too long ({len(self.text)} characters)")
        # Without this, models with optional thinking would think before the answer.
        values = {**self.special, "messages": list(messages), "enable_thinking": False}
        values["add_generation_prompt"] = generate
        job = json.dumps([self.text, values])
        return (_render_in_process if len(job) <= MAX_CACHED_CHARACTERS else _render_in_process.__wrapped__)(
            job, self.location
        )


@lru_cache(32)
def _render_in_process(job: str, location: str) -> str:
    import signal  # not at start-up: models without a template do not need them
    import subprocess

    try:
        process = subprocess.run(  # noqa: S603 (this module)
            python_command("-m", __name__, str(MAX_PROCESSOR_SECONDS)),
            input=job.encode(),
            capture_output=True,
            timeout=MAX_SECONDS,
            check=False,
        )
        timed_out = process.returncode < 0 and -process.returncode == getattr(signal, "SIGXCPU", None)
    except subprocess.TimeoutExpired:
        timed_out = True
    if timed_out:
        raise ModelError(
            f"{location}: the chat template was not rendered within {MAX_PROCESSOR_SECONDS} seconds"
        )
    if process.returncode == NO_JINJA_STATUS:
        version = ".".join(map(str, MIN_JINJA_VERSION))
        requirement = f"needs jinja2 {version} or newer; `pip install 'uwaga[train]'`"
        raise MissingExtraError(f"{location}: a chat template {requirement}")
    try:
        text, problem = json.loads(process.stdout)
    except ValueError:
        problem = "it needs too much memory"
    if problem is not None:
        raise ModelError(f"{location}: the chat template cannot be rendered: {problem}")
    return str(text)


def _main() -> int:
    """Render the template on standard input; print the prompt and the error, one of which is null."""
    seconds = int(sys.argv[1])
    try:
        from resource import RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, setrlimit  # not on Windows
    except ImportError:
        pass
    else:
        setrlimit(RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        setrlimit(RLIMIT_CPU, (seconds, seconds + 1))
        setrlimit(RLIMIT_CORE, (0, 0))  # no core dump when a limit ends the process
    try:
        from importlib.metadata import version

        from jinja2.exceptions import TemplateError

        if tuple(map(int, re.findall(r"\d+", version("jinja2"))[:3])) < MIN_JINJA_VERSION:
            return NO_JINJA_STATUS
    except ImportError:
        return NO_JINJA_STATUS
    text, values = json.load(sys.stdin)
    try:
        rendered_text, problem = _render(text, values), None
        if len(rendered_text) > MAX_PROMPT_CHARACTERS:
            problem = f"its prompt has {len(rendered_text)} characters, more than {MAX_PROMPT_CHARACTERS}"
            rendered_text = ""
    except MemoryError:
        rendered_text, problem = "", "it needs too much memory"
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        rendered_text, problem = "", quoted(f"{type(error).__name__}: {error}")
    json.dump([rendered_text, problem], sys.stdout)
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

"""The plugins that CONTRIBUTING.md shows, as files."""

import re
from pathlib import Path
from typing import Any

import pytest

from uwaga import plugins

GUIDE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


def plugin_file(title: str, folder: Path) -> Path:
    """Write the sample of the section ``### title`` to a file in ``folder``."""
    text = GUIDE.read_text(encoding="utf-8")
    [sample] = re.findall(rf"^### {title}$.*?^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    path = folder / f"{title.split()[-1]}.py"
    path.write_text(sample, encoding="utf-8")
    return path


def forget_plugins(patch: pytest.MonkeyPatch, *registries: plugins.Registry[Any]) -> None:
    """Remove all plugins and the names they registered, before and after the test."""
    patch.setenv(plugins.PLUGINS_VARIABLE, "")
    patch.setattr(plugins, "_loaded_plugins", set())
    for registry in registries:
        known = {name: value for name, value in registry._added.items() if "plugin" not in value.__module__}
        patch.setattr(registry, "_added", known)

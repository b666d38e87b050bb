"""Registries: a table of lazy names, plugins, and entry points of installed packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_samples import forget_plugins

from uwaga import plugins
from uwaga.errors import SettingsError
from uwaga.plugins import PLUGINS_VARIABLE, Registry, load_plugins

LAZY_NAMES = {
    "fraction": "fractions:Fraction",
    "absent": "no_such_package.module:name",
    "decimal": "decimal:Decimal",
}
LAZY_IMPORT_PROGRAM = """
import sys
from uwaga.plugins import Registry
registry = Registry("colour", "uwaga.colours", {"conversion": "colorsys:rgb_to_hls"})
assert list(registry) == ["conversion"] and "conversion" in registry and "colorsys" not in sys.modules
assert callable(registry["conversion"]) and "colorsys" in sys.modules
"""
CHILD_PROGRAM = """
import sys
from uwaga.plugins import Registry
list(Registry("colour", "uwaga.colours"))
assert sys.colours_are_loaded
"""


def test_built_in_implementations_are_imported_on_first_use() -> None:
    subprocess.run([sys.executable, "-c", LAZY_IMPORT_PROGRAM], check=True)


def test_implementations_in_packages_not_installed_are_omitted() -> None:
    registry: Registry[object] = Registry("number", "uwaga.numbers", LAZY_NAMES)
    assert list(registry) == ["fraction", "decimal"]
    assert "absent" not in registry
    with pytest.raises(KeyError):
        registry["absent"]


def test_registered_implementations_come_first_and_override_built_in_ones() -> None:
    registry: Registry[object] = Registry("number", "uwaga.numbers", LAZY_NAMES)
    registry.register("decimal")(int)
    assert list(registry) == ["decimal", "fraction"] and len(registry) == 2
    assert registry["decimal"] is int


def test_unknown_name_error_lists_and_suggests_registered_names() -> None:
    registry: Registry[object] = Registry("number", "uwaga.numbers", LAZY_NAMES)
    with pytest.raises(SettingsError, match="no number is named 'fractoin'; did you mean 'fraction'"):
        registry.find("fractoin")
    with pytest.raises(SettingsError, match="available: decimal, fraction"):
        registry.check("x" * 10_000_000)


def test_entry_points_of_installed_packages_are_registered(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "numbers-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: numbers\nVersion: 1.0\n", "utf-8")
    (folder / "entry_points.txt").write_text("[uwaga.numbers]\ninteger = builtins:int\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[object] = Registry("number", "uwaga.numbers", LAZY_NAMES)
    assert list(registry) == ["fraction", "decimal", "integer"]
    assert registry["integer"] is int


def test_child_processes_load_the_same_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_plugins(monkeypatch)
    (tmp_path / "colours.py").write_text("import sys\nsys.colours_are_loaded = True\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    load_plugins(["colours.py", "./colours.py"])
    assert os.environ[PLUGINS_VARIABLE] == str(tmp_path / "colours.py")
    assert len(plugins._loaded_plugins) == 1
    subprocess.run([sys.executable, "-c", CHILD_PROGRAM], check=True, cwd="/")

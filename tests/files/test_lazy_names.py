"""Lazy imports of the names that the stub of a package lists."""

import importlib
import subprocess
import sys

import pytest

from uwaga.files.lazy_names import lazy_names

PACKAGES = ("uwaga.engine", "uwaga.library", "uwaga.settings", "uwaga.translator")


@pytest.mark.parametrize("name", PACKAGES)
def test_names_in_the_stub_exist_in_the_package(name):
    package = importlib.import_module(name)
    assert dir(package) == sorted(package.__all__)
    for attribute in package.__all__:
        assert getattr(package, attribute) is not None
        assert importlib.util.find_spec(f"{name}.{attribute}") is None  # a module would hide the name
    with pytest.raises(AttributeError, match="'nothing'"):
        package.nothing  # noqa: B018


@pytest.mark.parametrize("name", PACKAGES)
def test_package_import_loads_no_submodules(name):
    code = f"import sys, {name}; print(*(module for module in sys.modules if module.startswith('{name}.')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_name_is_imported_from_the_module_named_in_the_stub(tmp_path):
    (tmp_path / "__init__.pyi").write_text('__all__ = ["sqrt", "gcd"]\n\nfrom math import gcd, sqrt\n')
    get, names, exported = lazy_names("some.package", str(tmp_path / "__init__.py"))
    assert names() == exported == ["gcd", "sqrt"]
    assert get("gcd")(12, 18) == 6
    with pytest.raises(AttributeError, match=r"'some\.package' has no attribute 'pi'"):
        get("pi")

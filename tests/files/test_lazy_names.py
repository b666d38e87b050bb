"""Names that a package's stub imports: there when they are used, and no others."""

import importlib
import subprocess
import sys

import pytest

from uwaga.files.lazy_names import lazy_names

PACKAGES = ("uwaga.engine", "uwaga.library", "uwaga.settings", "uwaga.translator")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_of_the_stub_is_there(name):
    package = importlib.import_module(name)
    assert dir(package) == sorted(package.__all__)
    for one in package.__all__:
        assert getattr(package, one) is not None
        assert importlib.util.find_spec(f"{name}.{one}") is None  # a module would hide the name
    with pytest.raises(AttributeError, match="'nothing'"):
        package.nothing  # noqa: B018


@pytest.mark.parametrize("name", PACKAGES)
def test_importing_the_package_imports_none_of_its_modules(name):
    code = f"import sys, {name}; print(*(one for one in sys.modules if one.startswith('{name}.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_name_is_imported_from_the_module_of_the_stub(tmp_path):
    (tmp_path / "__init__.pyi").write_text('__all__ = ["sqrt", "gcd"]\n\nfrom math import gcd, sqrt\n')
    get, names, listed = lazy_names("some.package", str(tmp_path / "__init__.py"))
    assert names() == listed == ["gcd", "sqrt"]
    assert get("gcd")(12, 18) == 6
    with pytest.raises(AttributeError, match=r"'some\.package' has no attribute 'pi'"):
        get("pi")

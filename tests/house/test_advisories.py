"""No minimum version of a dependency has a known vulnerability."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
OLD_MINIMUMS = {
    "fsspec": "2024.2", "jinja2": "3.1", "pyarrow": "15", "python-multipart": "0.0.18", "ray": "2.30",
    "sentencepiece": "0.2.0", "starlette": "0.40", "torch": "2.5",
}  # fmt: skip
"""Former minimum versions that have vulnerabilities."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("advisories", ROOT / "release/advisories.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def advisories() -> dict[str, Any]:
    return json.loads((ROOT / "release/advisories.json").read_text(encoding="utf-8"))


def test_minimum_versions_have_no_known_vulnerabilities(script, advisories) -> None:
    assert list(script.affected_minimums(script.dependencies(), advisories)) == []


def test_advisories_list_all_dependencies(script: ModuleType, advisories: dict[str, Any]) -> None:
    assert sorted(advisories["packages"]) == sorted(script.dependencies())


@pytest.mark.parametrize("name", OLD_MINIMUMS)
def test_vulnerable_minimum_versions_are_detected(script, advisories, name) -> None:
    requirements = {name: [Requirement(f"{name}>={OLD_MINIMUMS[name]}")]}
    assert any("CVE" in line for line in script.affected_minimums(requirements, advisories))


def test_vulnerable_functions_listed_as_unused_are_not_called(script, advisories) -> None:
    """Minimum versions may have vulnerabilities only in functions that uwaga does not call."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for names in advisories["unused"].values():
        assert [name for name in names if name in source] == []
    affected = list(script.affected_minimums(script.dependencies(), {**advisories, "unused": {}}))
    assert all(any(entry in line for line in affected) for entry in advisories["unused"])


VERSIONS = st.integers(0, 9).map(lambda number: f"1.{number}")


@given(version=VERSIONS, introduced=VERSIONS, fixed=VERSIONS)
def test_affected_range_excludes_the_fixed_and_includes_the_last_affected_version(
    script: ModuleType, version: str, introduced: str, fixed: str
) -> None:
    number, first, end = (int(text[2:]) for text in (version, introduced, fixed))
    span = {"introduced": introduced}
    assert script.is_affected(Version(version), [span]) == (number >= first)
    assert script.is_affected(Version(version), [{**span, "fixed": fixed}]) == (first <= number < end)
    last = {**span, "last_affected": fixed}
    assert script.is_affected(Version(version), [last]) == (first <= number <= end)
    assert script.is_affected(Version(version), [{"introduced": "2"}, last]) == (first <= number <= end)


def test_requirement_without_a_minimum_version_is_rejected(script: ModuleType) -> None:
    assert script.minimum(Requirement("mcp>=1.30,<2")) == Version("1.30")
    with pytest.raises(ValueError, match="no minimum"):
        script.minimum(Requirement("mcp<2"))


def test_advisories_are_fetched_page_by_page(script: ModuleType) -> None:
    def entry(number: int, *events: dict[str, str], **extra: object) -> dict[str, object]:
        ranges = [{"type": "GIT", "events": [{"introduced": "0"}]}, {"type": "ECOSYSTEM", "events": events}]
        affected = [{"package": {"name": "Py_Tools", "ecosystem": "PyPI"}, "ranges": ranges}]
        return {"id": f"X-{number}", "aliases": ["CVE-2", "CVE-1"], "affected": affected, **extra}

    start, end = {"introduced": "0"}, {"fixed": "1.2"}
    pages = {
        None: {"vulns": [entry(2, start, end, {"introduced": "2"})], "next_page_token": "second"},
        "second": {"vulns": [entry(1, start, {"last_affected": "3"}), entry(3, start, withdrawn="2026")]},
    }

    def respond(request: httpx.Request) -> httpx.Response:
        query = json.loads(request.content)
        assert query["package"] == {"name": "py-tools", "ecosystem": "PyPI"}
        return httpx.Response(200, json=pages[query.get("page_token")])

    with httpx.Client(transport=httpx.MockTransport(respond)) as client:
        first, second = script.fetch("py-tools", client)
    assert first == {"id": "X-1", "aliases": ["CVE-1", "CVE-2"], "ranges": [{**start, "last_affected": "3"}]}
    assert second["ranges"] == [{**start, **end}, {"introduced": "2"}]

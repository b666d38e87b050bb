"""Known security advisories of uwaga's dependencies.

``release/advisories.json`` holds them; tests/house compares them with the minimum versions of
``pyproject.toml``. ``python release/advisories.py`` updates them from OSV, which has those of PyPA and
GitHub, and prints each minimum version that has an unfixed one.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
FILE = ROOT / "release/advisories.json"
QUERY = "https://api.osv.dev/v1/query"
SOURCE = "api.osv.dev"
DEVELOPMENT = ("dev", "docs")
"""The extras of developers' tools, which no user installs."""

Range = Mapping[str, str]
"""Versions from ``introduced`` to below ``fixed`` or up to ``last_affected``; without both, all later."""


def dependencies() -> dict[str, list[Requirement]]:
    """Return the requirements of ``pyproject.toml`` by the normalised names of the packages."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    texts = [*settings["build-system"]["requires"], *project["dependencies"]]
    for extra, texts_of_extra in project["optional-dependencies"].items():
        texts += texts_of_extra if extra not in DEVELOPMENT else []
    requirements: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, texts):
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name != project["name"]:
            requirements.setdefault(name, []).append(requirement)
    return requirements


def minimum(requirement: Requirement) -> Version:
    """Return the lowest version that a requirement accepts; ValueError if it names none."""
    lowest = (">=", "==", "~=")
    versions = [Version(part.version) for part in requirement.specifier if part.operator in lowest]
    if not versions:
        raise ValueError(f"{requirement}: names no minimum version")
    return max(versions)


def is_affected(version: Version, ranges: Sequence[Range]) -> bool:
    """Return whether a version lies in one of the ranges."""
    for span in ranges:
        introduced = version >= Version(span["introduced"])
        fixed = "fixed" in span and version >= Version(span["fixed"])
        fixed = fixed or ("last_affected" in span and version > Version(span["last_affected"]))
        if introduced and not fixed:
            return True
    return False


def affected_minimums(
    requirements: Mapping[str, Sequence[Requirement]], advisories: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a line for each advisory that affects the minimum version of a requirement."""
    for name, group in requirements.items():
        for requirement in group:
            for entry in advisories["packages"].get(name, []):
                unused = entry["id"] in advisories["unused"]
                if not unused and is_affected(minimum(requirement), entry["ranges"]):
                    ids = ", ".join([entry["id"], *entry["aliases"]])
                    yield f"{requirement}: {ids}; {', '.join(map(_end, entry['ranges']))}"


def _end(span: Range) -> str:
    if "fixed" in span:
        return f"fixed in {span['fixed']}"
    return f"fixed after {span['last_affected']}" if "last_affected" in span else "not fixed"


def fetch(name: str, client: httpx.Client) -> list[dict[str, Any]]:
    """Return the advisories of a package that OSV knows, without those withdrawn."""
    package = {"name": name, "ecosystem": "PyPI"}
    advisories, page = [], ""
    while True:
        answer = client.post(QUERY, json={"package": package, **({"page_token": page} if page else {})})
        content = answer.raise_for_status().json()
        for entry in content.get("vulns", []):
            spans = [span for affected in entry["affected"] for span in _spans(affected, name)]
            if spans and "withdrawn" not in entry:
                aliases = sorted(entry.get("aliases", []))
                advisories.append({"id": entry["id"], "aliases": aliases, "ranges": spans})
        page = content.get("next_page_token", "")
        if not page:
            return sorted(advisories, key=lambda entry: entry["id"])


def _spans(affected: Mapping[str, Any], name: str) -> Iterator[dict[str, str]]:
    """Yield the ranges of affected versions from events: the end of a range follows its start."""
    if re.sub(r"[-_.]+", "-", affected["package"]["name"]).lower() != name:
        return
    for versions in affected.get("ranges", []):
        span: dict[str, str] = {}
        for event in versions["events"] if versions["type"] == "ECOSYSTEM" else ():
            if "introduced" in event and span:
                yield span
                span = {}
            span |= {key: event[key] for key in ("introduced", "fixed", "last_affected") if key in event}
        if span:
            yield span


def main() -> int:
    """Fetch the advisories, write the file and return 1 if a minimum version has one."""
    requirements = dependencies()
    advisories = json.loads(FILE.read_text(encoding="utf-8"))
    with httpx.Client(timeout=60) as client:
        advisories["packages"] = {name: fetch(name, client) for name in sorted(requirements)}
    advisories |= {"source": SOURCE, "date": datetime.date.today().isoformat()}
    FILE.write_text(json.dumps(advisories, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    lines = list(affected_minimums(requirements, advisories))
    print("\n".join(lines) or f"{len(requirements)} dependencies: no minimum version has a known advisory")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

"""The release workflow, script and conda recipe. ``make release-files`` runs the steps themselves."""

import importlib.util
import io
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github/workflows"
PUBLISHING_JOBS = {
    "attest": {"id-token": "write", "attestations": "write"},
    "pypi": {"id-token": "write"},
    "github": {"contents": "write"},
    "publish-image": {"packages": "write", "id-token": "write", "attestations": "write"},
}
"""Jobs that may have write permissions."""


def workflow(name: str) -> dict:
    """Return a workflow; YAML 1.1 reads its key ``on`` as True."""
    return yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))


def commands(job: dict) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.fixture(scope="module")
def jobs() -> dict[str, dict]:
    return workflow("release.yml")["jobs"]


@pytest.fixture(scope="module")
def files():
    spec = importlib.util.spec_from_file_location("release_files", ROOT / "release/files.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_workflows_are_well_formed():
    for path in sorted(WORKFLOWS.glob("*.yml")):
        content = workflow(path.name)
        assert {"name", True, "permissions", "jobs"} <= content.keys(), path.name
        for name, job in content["jobs"].items():
            assert ("uses" in job) != ("steps" in job and "runs-on" in job), name
            assert all(("uses" in step) != ("run" in step) for step in job.get("steps", [])), name
            needed = job.get("needs", [])
            assert set([needed] if isinstance(needed, str) else needed) <= content["jobs"].keys(), name


@pytest.mark.parametrize("name", ["release.yml", "test.yml", "wheels.yml"])
def test_workflow_actions_are_pinned_to_commits(name):
    text = (WORKFLOWS / name).read_text(encoding="utf-8")
    actions = [
        action for action in re.findall(r"uses: (.+)$", text, re.MULTILINE) if not action.startswith("./")
    ]
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action)] == []


def test_release_builds_and_publishes_wheels(jobs):
    text = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    assert "uses: ./.github/workflows/wheels.yml" in text
    assert "uses: pypa/gh-action-pypi-publish@" in text
    assert "workflow_call" in workflow("wheels.yml")[True]


def test_only_publishing_jobs_have_write_permissions(jobs):
    assert workflow("release.yml")["permissions"] == {}
    granted = {name: job["permissions"] for name, job in jobs.items()}
    assert {
        name: permissions for name, permissions in granted.items() if "write" in permissions.values()
    } == PUBLISHING_JOBS
    assert {tuple(granted[name].items()) for name in granted.keys() - PUBLISHING_JOBS} == {
        (("contents", "read"),)
    }


def needs(jobs: dict, name: str) -> set[str]:
    """Return the jobs that a job depends on, directly or indirectly, including itself."""
    direct = jobs[name].get("needs", [])
    required = {name}
    for dependency in [direct] if isinstance(direct, str) else direct:
        required |= needs(jobs, dependency)
    return required


def test_publishing_requires_a_tag_and_checked_files(jobs):
    assert jobs["attest"]["if"] == "github.event_name == 'push'"
    assert workflow("release.yml")[True]["push"] == {"tags": ["v*"]}
    for name in PUBLISHING_JOBS:
        assert {"attest", "check", "build"} <= needs(jobs, name)
    for name in ("github", "publish-image"):  # once the reviewers of the environment have approved
        assert "pypi" in needs(jobs, name)
    assert jobs["pypi"]["environment"]["name"] == "pypi"


def test_workflow_and_makefile_run_the_same_script(jobs):
    assert "python release/files.py check dist" in commands(jobs["check"])
    assert "python release/files.py build dist" in commands(workflow("wheels.yml")["jobs"]["sdist"])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for step in ("build", "check"):
        assert f"$(PYTHON) release/files.py {step} dist/release" in makefile


def test_workflow_prints_the_docker_image_size(jobs):
    assert "docker image inspect --format '{{.Size}} bytes' uwaga" in commands(jobs["image"])


def test_recipe_requirements_equal_wheel_requirements(files):
    recipe = yaml.safe_load((ROOT / "release/recipe.yaml.in").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = recipe["requirements"]
    assert requirements["run"] == [
        "python",
        *(requirement.replace(">", " >") for requirement in project["project"]["dependencies"]),
    ]
    assert requirements["host"] == [
        "python",
        "pip",
        *(requirement.replace(">", " >") for requirement in project["build-system"]["requires"]),
    ]


PACKAGE = {
    "uwaga/__init__.py": b"", "uwaga/py.typed": b"", "uwaga/bundled/model.safetensors": b"",
    "uwaga/results/attention_view.css": b"", "uwaga/results/attention_phrases.json": b"",
}  # fmt: skip
OTHER_MEMBERS = {
    "uwaga/engine/_core.abi3.so": b"",
    "uwaga-0.1.0.dist-info/METADATA": b"",
    "uwaga-0.1.0.dist-info/licenses/LICENSE": b"",
}


def check_wheel(files, folder: Path, members: dict[str, bytes]) -> None:
    path = folder / "uwaga-0.1.0-cp312-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in members.items():
            wheel.writestr(name, data)
    files.check_wheel(path, files.members(path), set(PACKAGE))


def test_wheel_with_exactly_the_files_of_the_sdist_is_accepted(files, tmp_path, capsys):
    check_wheel(files, tmp_path, PACKAGE | OTHER_MEMBERS)
    assert re.search(r"bytes in +1 bundled model", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("added", "removed", "message"),
    [
        ("uwaga/tests/test_core.py", None, "holds uwaga/tests/test_core.py, which is none of"),
        ("uwaga/engine/core.cpp", None, "holds uwaga/engine/core.cpp, which is none of"),
        ("uwaga.libs/libgcc_s-1.so", None, "holds uwaga.libs/libgcc_s-1.so, which is none of"),
        ("uwaga/stray.py", None, "and the sdist differ: uwaga/stray.py"),
        ("uwaga/engine/_core.cp311.so", None, "2 cores instead of one"),
        (None, "uwaga/__init__.py", "and the sdist differ: uwaga/__init__.py"),
        (None, "uwaga/bundled/model.safetensors", "lacks: bundled model"),
        (None, "uwaga-0.1.0.dist-info/licenses/LICENSE", "lacks: licence"),
    ],
)
def test_wheel_with_missing_or_extra_files_is_rejected(files, tmp_path, added, removed, message):
    members = PACKAGE | OTHER_MEMBERS | ({added: b""} if added else {})
    members.pop(removed, None)
    with pytest.raises(SystemExit, match=re.escape(message)):
        check_wheel(files, tmp_path, members)


def test_wheel_size_is_limited(files, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_WHEEL_BYTES", 100)
    with pytest.raises(SystemExit, match="more than 100"):
        check_wheel(files, tmp_path, PACKAGE | OTHER_MEMBERS)


def test_sdist_that_differs_from_the_commit_is_rejected(files, tmp_path):
    path = tmp_path / f"uwaga-{files.VERSION}.tar.gz"
    with tarfile.open(path, "w:gz") as sdist:
        stray = tarfile.TarInfo(f"uwaga-{files.VERSION}/stray.txt")
        stray.size = 1
        sdist.addfile(stray, io.BytesIO(b"x"))
    assert files.members(path) == {"stray.txt": b"x"}
    if not (ROOT / ".git").exists():
        pytest.skip("this source tree is no checkout")
    with pytest.raises(SystemExit, match=r"and the commit differ in .*stray\.txt"):
        files.check_contents(path, [])


def test_tag_must_equal_the_version_and_have_a_changelog_section(files, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match=r"the tag is v9\.9 and the version"):
        files.check_tag("v9.9", tmp_path)
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## Unreleased\n\n- new\n")
    with pytest.raises(SystemExit, match="has no section"):
        files.check_tag(f"v{files.VERSION}", tmp_path)
    changelog.write_text(f"# Changelog\n\n## {files.VERSION} (2026-12-01)\n\n- new\n\n## 0.0.1\n\n- old\n")
    files.check_tag(f"v{files.VERSION}", tmp_path)
    assert (tmp_path / "notes.md").read_text() == "- new\n"


def test_release_build_requires_an_empty_folder(tmp_path):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/uwaga-0.0.1.tar.gz").touch()
    command = [sys.executable, ROOT / "release/files.py", "build", tmp_path]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr.startswith(f"error: {tmp_path}/packages is not empty")


def test_course_archive_is_reproducible_and_says_how_to_serve_it(tmp_path, jobs):
    spec = importlib.util.spec_from_file_location("release_course", ROOT / "release/course.py")
    course = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(course)
    site = tmp_path / "site"
    (site / "learn").mkdir(parents=True)
    with pytest.raises(SystemExit, match="make docs"):
        course.write_course(site, tmp_path / "uwaga-course-1.zip")
    (site / "learn/index.html").write_text("<h1>The course</h1>")
    archives = [tmp_path / name / "uwaga-course-1.zip" for name in ("a", "b")]
    for archive in archives:
        course.write_course(site, archive)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    with zipfile.ZipFile(archives[0]) as file:
        assert file.namelist() == ["uwaga-course-1/README.txt", "uwaga-course-1/learn/index.html"]
        assert b"python3 -m http.server" in file.read("uwaga-course-1/README.txt")
    assert "make course" in commands(jobs["check"])
    assert "dist/uwaga-course-*.zip" in commands(jobs["github"])

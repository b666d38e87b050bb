"""The processes that uwaga starts never execute files of the current folder."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_uwaga
from table_jobs import part_bytes, sentences

from uwaga.child_processes import SAFE_PATH, python_command, safe_import_path
from uwaga.tokenizers.chat_template import ChatTemplate
from uwaga_course.check import check_program
from uwaga_course.exercises import CodeExercise
from uwaga_server import serve
from uwaga_server.settings import ServerSettings

MODULES = ("jinja2", "json", "numpy", "pickle", "random", "struct", "torch", "typing", "yaml")
RECORD_FILE = "executed"
HOSTILE_MODULE = """
import os
with open(os.path.join(os.path.dirname(__file__), "executed"), "a") as file:
    file.write(__name__ + "\\n")
raise ImportError("a module of the current folder")
"""


@pytest.fixture(autouse=True)
def hostile_folder(tmp_path, monkeypatch):
    """Return the current folder, whose modules write a file when they are executed."""
    folder = tmp_path / "downloaded"
    folder.mkdir()
    for module in MODULES:
        (folder / f"{module}.py").write_text(HOSTILE_MODULE, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.delenv(SAFE_PATH, raising=False)
    yield folder
    executed = folder / RECORD_FILE
    assert not executed.exists(), executed.read_text(encoding="utf-8")
    assert SAFE_PATH not in os.environ


def run(*arguments: str) -> str:
    """Run the command line in this process, whose children start in the hostile folder."""
    return run_uwaga(*arguments).output


def test_modules_of_the_current_folder_are_imported_without_safe_path(hostile_folder):
    """This shows that the folder used in the other tests is hostile."""
    subprocess.run([sys.executable, "-c", "import json"], capture_output=True, check=False)
    assert (hostile_folder / RECORD_FILE).read_text(encoding="utf-8") == "json\n"
    (hostile_folder / RECORD_FILE).unlink()


@pytest.mark.slow
def test_batch_processes_import_nothing_from_the_current_folder(hostile_folder):
    (hostile_folder / "in.txt").write_text("A dog.\nA cat.\n", encoding="utf-8")
    run("batch", "in.txt", "out", "--workers", "2", "--model", "bundled")
    assert len(list((hostile_folder / "out").glob("part-*"))) == 1


def test_clean_processes_import_nothing_from_the_current_folder(hostile_folder):
    (hostile_folder / "pairs.tsv").write_text("A dog.\tEin Hund.\nA cat.\tEine Katze.\n", encoding="utf-8")
    run("clean", "pairs.tsv", "-o", "cleaned", "--jobs", "2")


@pytest.mark.parametrize("value", [None, "", "0", "1"])
def test_safe_path_variable_is_restored(value, monkeypatch):
    with monkeypatch.context() as patch:
        if value is not None:
            patch.setenv(SAFE_PATH, value)
        with safe_import_path():
            assert os.environ[SAFE_PATH] == "1"
        assert os.environ.get(SAFE_PATH) == value


def test_chat_template_process_imports_nothing_from_the_current_folder():
    pytest.importorskip("jinja2")
    template = ChatTemplate("{{ messages[0].content }}: {{ 'random' | tojson }}")
    assert template.render([{"role": "user", "content": "A dog"}]) == 'A dog: "random"'


def test_answer_check_process_imports_nothing_from_the_current_folder():
    program = "import json, random\n\ndef double(number):\n    return json.loads('2') * number"
    exercise = CodeExercise.model_construct(kind="code", tests="assert double(2) == 4")
    assert check_program(exercise, program).right


def test_sweep_runs_import_nothing_from_the_current_folder(hostile_folder):
    pytest.importorskip("optuna")
    from uwaga.training.sweep import LOG_FILE, TrialRun

    trial = TrialRun(Path("missing.yaml"), {}, Path("run"), "loss")
    trial._process.wait(60)
    assert "missing.yaml" in (hostile_folder / "run" / LOG_FILE).read_text(encoding="utf-8")


def test_server_workers_import_nothing_from_the_current_folder(monkeypatch):
    class SpawningSupervisor:
        """Starts a process as uvicorn's supervisor starts workers."""

        def __init__(self, config, sockets):
            assert config.workers == 2

        def run(self):
            process = multiprocessing.get_context("spawn").Process(target=os.getpid)
            process.start()
            process.join()
            assert process.exitcode == 0

    monkeypatch.setattr(serve, "Supervisor", SpawningSupervisor)
    serve.run_server(ServerSettings(port=0, workers=2))


@pytest.mark.slow
def test_ray_actors_import_nothing_from_the_current_folder(hostile_folder):
    """A job on local Ray, without a cluster, has the output of one without Ray."""
    pytest.importorskip("ray")
    lines = "\n".join(sentences(40))
    (hostile_folder / "in.txt").write_text(f"{lines}\n", encoding="utf-8")
    options = ("--model", "bundled", "--part-rows", "8")
    run("batch", "in.txt", "whole", *options)
    run("batch", "in.txt", "out", "--ray", "local", "--workers", "1", *options)
    assert len(part_bytes(hostile_folder / "out")) == 5
    assert part_bytes(hostile_folder / "out") == part_bytes(hostile_folder / "whole")


def test_command_line_sets_safe_path_for_child_processes(tmp_path):
    """Processes that libraries start inherit the option from the environment."""
    script = tmp_path / "uwaga.py"
    script.write_text(
        "import atexit, os\n"
        "atexit.register(lambda: print(os.environ['PYTHONSAFEPATH']))\n"
        "from uwaga.cli.start import start\n"
        "start()\n",
        encoding="utf-8",
    )
    command = python_command("-c", f"exec(open({str(script)!r}).read())", "--version")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.endswith("\n1\n")


def test_nested_processes_import_nothing_from_the_current_folder():
    program = "import os, multiprocessing as m\nm.get_context('spawn').Process(target=os.getpid).start()"
    subprocess.run(python_command("-c", program), check=True)
    with safe_import_path():
        subprocess.run([sys.executable, "-c", "import json"], check=True)

"""The home page includes sections of the README, whose numbers agree with docs/measured.md."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INDEX = (ROOT / "docs/index.md").read_text(encoding="utf-8")
SECTION = re.compile(r"<!-- --8<-- \[start:(\w+)\] -->\n(.*?)<!-- --8<-- \[end:\1\] -->", re.DOTALL)
SECTIONS = dict(SECTION.findall(README))


def test_home_page_includes_sections_of_the_readme():
    assert re.findall(r'--8<-- "README\.md:(\w+)"', INDEX) == list(SECTIONS) == ["first", "peers", "install"]
    for text in SECTIONS.values():
        assert "](docs/" not in text  # such a link would lead nowhere on the home page


def test_numbers_in_the_readme_are_backed_by_measurements():
    measured = (ROOT / "docs/measured.md").read_text(encoding="utf-8")
    figures = re.findall(r"\d[\d,.]*\d[×]?|\d×", SECTIONS["peers"])
    assert len(figures) > 20
    assert [figure for figure in figures if figure not in measured] == []


def test_readme_introduction_is_short():
    introduction = README.split("![A terminal")[0]
    assert len(introduction.splitlines()) < 25 and len(README.splitlines()) < 80
    assert "pip install ." in SECTIONS["install"] and ".whl" in SECTIONS["install"]


def test_demo_does_not_install_torch(tmp_path):
    def commands(target):
        call = ["make", "--dry-run", "-C", ROOT, f"VENV={tmp_path}", target]
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout

    assert "pip" in commands("demo")
    assert "torch" not in commands("demo")
    assert '"torch==' in commands("test")

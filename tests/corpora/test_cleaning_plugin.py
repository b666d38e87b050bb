"""The cleaning rule that the guide defines in a plugin file."""

import re
from pathlib import Path

import pytest
from command_line import run_uwaga
from plugin_samples import forget_plugins

from uwaga_corpora.cleaning.rule import RULES

GUIDE = Path(__file__).parents[2] / "docs/guides/plugins.md"


@pytest.mark.parametrize("in_settings", [False, True])
def test_cleaning_rule_of_a_plugin_is_applied(tmp_path, monkeypatch, in_settings) -> None:
    forget_plugins(monkeypatch, RULES)
    [sample] = re.findall(r"^```py title=\"colons.py\"\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)
    (tmp_path / "colons.py").write_text(sample, "utf-8")
    (tmp_path / "crawl.tsv").write_text("Sugar:\tZucker:\nA dog.\tEin Hund.\n", "utf-8")
    (tmp_path / "clean.yaml").write_text("plugins: [colons.py]\nrules: [length, colons]\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    command = ["clean", "crawl.tsv", "-o", "clean.tsv", "--jobs", "2"]
    named = ["--settings", "clean.yaml"] if in_settings else ["--rules", "length,colons"]
    plugin = [] if in_settings else ["--plugin", "colons.py"]
    run_uwaga(*plugin, *command, *named)
    assert (tmp_path / "clean.tsv").read_text("utf-8") == "A dog.\tEin Hund.\n"

"""Checks of statements about models, sizes, commands and links in the documentation.

Each check takes the text of a file and returns what is wrong with it. ``test_prose.py`` applies them all.
"""

import hashlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from stated_numbers import WORDS

from uwaga.checkpoints.formats.huggingface.llama import FAMILIES
from uwaga.checkpoints.formats.uwaga.names import BUNDLED

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "docs/learn").glob("[0-9]*.md"))
FENCE = re.compile(r"^( *)```[^\n]*\n.*?^\1```$", re.MULTILINE | re.DOTALL)
DECODERS = {
    "Llama": "llama", "Mistral": "mistral", "Qwen": "qwen2", "Gemma": "gemma2", "Hunyuan": "hunyuan_v1_dense",
}  # fmt: skip
"""Model families of decoders by the names that pages use for them."""


def models_wrongly_described_with_windows(text: str) -> list[str]:
    """Return the models that a sentence or table row wrongly describes as having attention windows."""
    return [
        f"{name} in {sentence!r}"
        for sentence in re.split(r"(?<=\.)\s|(?<=。)|\n\n|\n(?=\|)", text)
        if re.search(r"(?<!context )\bwindows?\b|\bventanas?\b|\boke?n\w{0,3}\b|窗口", sentence)
        for name, family in DECODERS.items()
        if name in sentence and FAMILIES[family].windows == "none"
    ]


def outdated_install_sizes(text: str) -> list[str]:
    """Return the stated sizes of an installation that differ from the size in the guide to the engine."""
    guide = (ROOT / "docs/guides/engine.md").read_text(encoding="utf-8").partition("## Size of a plain")[2]
    [total] = re.findall(r"^\| \*\*total\*\* \| \*\*([\d.]+)", guide, re.MULTILINE)
    parts = re.findall(r"^\| [^*|]+ \| ([\d.]+) \|", guide, re.MULTILINE)
    assert f"takes {total} MB with Python 3.11" in guide
    assert sum(map(float, parts)) == pytest.approx(float(total))
    stated = re.findall(r"^\| none \|.* (\S+) \|$", text, re.MULTILINE)
    stated += re.findall(r"(\S+) MB with Python 3\.11", text)
    return [] if stated == [total.removesuffix(".0")] * 2 else stated


COMMANDS = {
    "heads": ["heads", "-s", "docs/sample.en", "-r", "docs/sample.en", "--kind", "cross", "--limit", "1"],
    "--attribution": ["attend", "--attribution", "gradient_input", "A man sleeps."],
}


@cache
def needs_torch(name: str) -> bool:
    """Return True if a command of the guide to attention fails where torch is not installed."""
    if not BUNDLED.exists():
        pytest.skip("this source tree holds no bundled model")
    program = "import sys; sys.modules['torch'] = None; from uwaga.cli.main import app; app()"
    command = [sys.executable, "-c", program, *COMMANDS[name]]
    return subprocess.run(command, cwd=ROOT, capture_output=True).returncode != 0


def wrong_torch_requirements(text: str) -> list[str]:
    """Return the commands whose torch requirement is missing or wrong in the guide to attention."""
    clauses = re.split(r"[.;:]\s", text.partition("## Importance of heads")[2].partition("```")[0])
    words = {True: "in torch", False: "natively"}
    return [
        name
        for name in COMMANDS
        if not any(f"`{name}`" in clause and words[needs_torch(name)] in clause for clause in clauses)
    ]


def mechanisms_without_chapter_link(text: str) -> list[str]:
    """Return the mechanisms that a chapter lists but whose rows do not link to a chapter."""
    listed = {
        number
        for page in CHAPTERS
        for number in re.findall(
            r"numbers\.md#(m\d+)", page.read_text(encoding="utf-8").rpartition("\nSources: ")[2]
        )
    }
    rows = re.findall(r'^\| (?:<a id="|\[\w+\]\(numbers\.md#)(m\d+)(.*)$', text, re.MULTILINE)
    linked = {number for number, row in rows if "../learn/" in row}
    return sorted(listed & {number for number, _ in rows} - linked)


def paragraphs_in_widgets(text: str) -> list[str]:
    """Return the contents of widgets that contain paragraphs, before which Markdown would end the widget."""
    widgets = re.findall(r"<(uwaga-\w+)[^>]*>(.*?)</\1>", text, re.DOTALL)
    return [content for _, content in widgets if re.search(r"\n\s*\n|<(?:p|div)\b", content)]


def calls_that_disable_gradients(text: str) -> list[str]:
    """Return the calls that disable gradients for all later samples of a page."""
    return re.findall(r"^ *torch\.set_grad_enabled\(.*", text, re.MULTILINE)


def messages_without_data_set(text: str) -> list[str]:
    """Return the messages with a mean over dev pairs that do not mention the dev set."""
    messages = re.findall(r'^  \w+: "(.*(?:\{seen\}|\{linked\}).*)",$', text, re.MULTILINE)
    return [message for message in messages if not re.search("dev|desarrollo|开发", message, re.IGNORECASE)]


def words_missing_from_picture(text: str) -> list[str]:
    """Return the words that the guide to confidence mentions but its picture does not show."""
    pillow = pytest.importorskip("PIL.Image")
    if not BUNDLED.exists():
        pytest.skip("this source tree holds no bundled model")
    [(name, caption)] = re.findall(r"!\[A translation[^\]]*\]\((\S+\.png)\)\n\n(.*?)\n\n", text, re.DOTALL)
    shown = pillow.open(ROOT / "docs/guides" / name).info
    model = hashlib.sha256((BUNDLED / "model.safetensors").read_bytes()).hexdigest()
    wrong = [
        word for word in re.findall(r"\*(\w\S*?)\*", caption) if word not in shown.get("unsure", "").split()
    ]
    return wrong if shown.get("model") == model else [*wrong, f"{name} is of another model"]


def wrong_reading_times(text: str) -> list[str]:
    """Return the chapters whose stated time is not 25 minutes plus a minute per hundred words."""
    stated = dict(re.findall(r"^\| \[\d+\. [^\]]*\]\(([\w-]+\.md)\) \| .* \| (\d+) \|$", text, re.MULTILINE))
    assert {page.name for page in CHAPTERS} == stated.keys()
    wrong, total = [], 0.0
    for page in CHAPTERS:
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        prose = re.sub(r"<uwaga[^>]*>|^!\[.*?\)$", "", prose, flags=re.DOTALL | re.MULTILINE)
        minutes = len(prose.split()) / 100 + 25
        total += minutes
        if abs(minutes - int(stated[page.name])) > 5:
            wrong.append(f"{page.name}: {stated[page.name]} minutes, not {minutes:.0f}")
    hours = WORDS[round(total / 60)]
    return wrong if f"in order, with exercises about {hours} hours" in text else [*wrong, f"{hours} hours"]

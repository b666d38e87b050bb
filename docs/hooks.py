"""Hooks of mkdocs: equations as MathML, exercises from files, and the laboratory's engine and model.

``$…$`` is an inline equation, and a fence ``math`` a displayed one. A fence ``exercise`` contains the number
of an exercise of :mod:`uwaga_course`, such as ``3.1``; a fence ``source`` the file and the name of a function
whose code is shown, such as ``src/uwaga/models/layers/attention.py::attend``. A fence ``predict`` contains
the options of a question, a line each, the right ones after ``+`` and the others after ``-``; the fold after
it opens when the reader has chosen one. A fence ``glossary`` contains the name of a file of terms.
"""

from __future__ import annotations

import ast
import gzip
import html
import json
import re
import shutil
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import markdown
from equations import display_equations, mathml
from languages import COURSE, DOCS, NAMES, language_of
from markdown.extensions import Extension
from markdown.extensions.toc import slugify
from markdown.inlinepatterns import InlineProcessor
from page_python import copy_python, megabytes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.conversion.quantise import quantise
from uwaga.results.views import view_module
from uwaga_course.exercises import CodeExercise, Exercise, all_exercises, find_exercise
from uwaga_course.translations import exercise_in

ROOT = DOCS.parent
FAILED_FENCES: list[str] = []
"""Fences that could not be rendered."""
WORDS = {
    "en": {
        "exercise": "Exercise {number}",
        "answer": "Answer to exercise {number}",
        "hint": "Hint",
        "solution": "Solution",
        "program": "Write it to a file and run {command}.",
        "program here": "Or write it to a file and run {command}.",
    },
    "es": {
        "exercise": "Ejercicio {number}",
        "answer": "Respuesta al ejercicio {number}",
        "hint": "Pista",
        "solution": "Solución",
        "program": "Escríbelo en un archivo y ejecuta {command}.",
        "program here": "O escríbelo en un archivo y ejecuta {command}.",
    },
    "pl": {
        "exercise": "Ćwiczenie {number}",
        "answer": "Odpowiedź do ćwiczenia {number}",
        "hint": "Wskazówka",
        "solution": "Rozwiązanie",
        "program": "Zapisz to w pliku i uruchom {command}.",
        "program here": "Albo zapisz go w pliku i uruchom {command}.",
    },
    "zh": {
        "exercise": "习题 {number}",
        "answer": "习题 {number} 的答案",
        "hint": "提示",
        "solution": "解答",
        "program": "把它写进一个文件，然后运行 {command}。",
        "program here": "也可以把它写进一个文件，然后运行 {command}。",
    },
}
"""Phrases of an exercise, by language."""
_page: dict[str, Any] = {"language": "en", "chapter": "", "predictions": 0}
"""The page that is being rendered: its language, the number of its chapter, and its predictions so far."""
ENGINE = ("index.js", "shared.js", "worker.js", "uwaga.wasm")


class _Inline(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # noqa: N802 (its name)
        return self.md.htmlStash.store(mathml(m[1], "inline")), m.start(0), m.end(0)


class _Equations(Extension):
    def extendMarkdown(self, md: markdown.Markdown) -> None:  # noqa: N802 (its name)
        md.inlinePatterns.register(
            _Inline(r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<![\s\\])\$(?![\w$])", md), "math", 185
        )


def _fence(make: Callable[[str], str]) -> Callable[..., str]:
    """Wrap the function of a fence to record its errors, which superfences ignores."""

    def wrapper(source: str, *_: Any, **__: Any) -> str:
        try:
            return make(source)
        except Exception as error:
            FAILED_FENCES.append(f"{source.strip()[:100]}: {error}")
            raise

    return wrapper


def _exercise(source: str) -> str:
    """Return an exercise: its question, a form that a script checks, and its folded hint and solution."""
    language = _page["language"]
    english, exercise = find_exercise(source.strip()), exercise_in(language, source.strip())
    phrases = {key: text.replace("{number}", exercise.number) for key, text in WORDS[language].items()}
    displayed = {"question", "hint", "solution"}  # by the page itself
    unused = {"program", "wrong"} if exercise.kind == "code" else set()
    values = exercise.model_dump(mode="json", exclude_none=True, exclude=displayed | unused)
    data = html.escape(json.dumps(values, ensure_ascii=False), quote=True)
    size = _python_size(exercise) if isinstance(exercise, CodeExercise) else None
    python = "" if size is None else f' data-python="{size}"'
    return (
        f'<section class="exercise" id="exercise-{exercise.number}" data-exercise="{data}"{python}>'
        f"<h3>{phrases['exercise']}</h3>{_text(exercise.question)}{_form(exercise, english, phrases)}"
        f'{_remarks(values)}<div class="exercise-help">'
        f"<details><summary>{phrases['hint']}</summary>{_text(exercise.hint)}</details>"
        f"<details><summary>{phrases['solution']}</summary>{_text(exercise.solution)}</details></div></section>"
    )


def _python_size(exercise: CodeExercise) -> int | None:
    """Return the megabytes of Python that the page loads for an exercise, None if it cannot run there."""
    return None if exercise.needs_uwaga else megabytes("numpy" in exercise.start + exercise.tests)


def _predict(source: str) -> str:
    """Return the options of a prediction as a list, which a script turns into a form."""
    _page["predictions"] += 1
    name = f"{_page['chapter']}.{_page['predictions']}"
    options = re.findall(r"^([-+]) +(.+)$", source, re.MULTILINE)
    if not 2 <= len(options) <= 4 or len(options) != len(source.strip().splitlines()):
        raise ValueError("a prediction has two to four options, each in a line that begins with - or +")
    if not any(mark == "+" for mark, _ in options):
        raise ValueError("no option of the prediction is marked with +")
    items = "".join(
        f"<li{' data-right' if mark == '+' else ''}>{_line(option)}</li>" for mark, option in options
    )
    return f'<ul class="predict" data-predict="{name}">{items}</ul>'


_markdown = markdown.Markdown(extensions=[_Equations(), "fenced_code", "tables"])


def _text(source: str) -> str:
    return _markdown.reset().convert(source)


def _line(source: str) -> str:
    """Return a text of one paragraph without its tag; tags in the text are escaped."""
    return _text(html.escape(source, quote=False)).removeprefix("<p>").removesuffix("</p>")


def _plain(source: str) -> str:
    """Return a line for an attribute, without markup of emphasis, code and equations."""
    return html.escape(re.sub(r"[*`$]", "", source), quote=True)


def _remarks(values: dict[str, Any]) -> str:
    """Return HTML templates of the remarks that have emphasis, code or equations, each with its source."""
    entries = [*values.get("wrong", ()), *values.get("options", ())]
    remarks = {entry["remark"] for entry in entries if "remark" in entry}
    remarks |= {values.get("otherwise", ""), values.get("because", "")}
    return "".join(
        f'<template data-search-exclude data-remark="{html.escape(remark, quote=True)}">{line}</template>'
        for remark in sorted(remarks)
        if (line := _line(remark)) != html.escape(remark, quote=False).strip()
    )


def _form(exercise: Exercise, english: Exercise, phrases: dict[str, str]) -> str:
    """Return the form of an exercise, which also prints well without a script."""
    if exercise.kind == "number":
        return f"<p>{_cell(phrases['answer'])}</p>"
    if exercise.kind == "choice":
        button = f'<input type="radio" name="exercise-{exercise.number}"'
        options = [
            f'<li><label>{button} value="{index}" aria-label="{_plain(option.text)}">'
            f" {_line(option.text)}</label></li>"
            for index, option in enumerate(exercise.options)
        ]
        return f"<ul>{''.join(options)}</ul>"
    if exercise.kind == "order" and english.kind == "order":
        pairs = sorted(
            zip(english.items, exercise.items, strict=True)
        )  # in the English order in every language
        rows = [
            f'<li data-item="{html.escape(item, quote=True)}"><span>{_line(item)}</span></li>'
            for _, item in pairs
        ]
        return f"<ol>{''.join(rows)}</ol>"
    if exercise.kind == "table":
        head = "".join(f"<th scope=col>{_line(name)}</th>" for name in exercise.columns)
        body = "".join(
            f"<tr><th scope=row>{_line(name)}</th>"
            + "".join(f"<td>{_cell(f'{name}, {column}')}</td>" for column in exercise.columns)
            + "</tr>"
            for name in exercise.rows
        )
        return f"<table><tr><td></td>{head}</tr>{body}</table>"
    assert exercise.kind == "code"
    command = f"<code>uwaga learn check {exercise.number} FILE.py</code>"
    here = _python_size(exercise) is not None
    instruction = phrases["program here" if here else "program"].replace("{command}", command)
    start = f'<pre tabindex="0"><code>{html.escape(exercise.start)}</code></pre>'
    return f'{start}<p class="exercise-command">{instruction}</p>'


def _cell(label: str) -> str:
    """Return an input for a number, with the full keyboard on a phone: that of decimals may lack a minus."""
    name = html.escape(label, quote=True)
    return f'<input size=8 autocomplete="off" aria-label="{name}">'


@cache  # the chapters show the same code in all languages
def _source(source: str) -> str:
    """Return the code of a function or class without its docstring."""
    name = source.strip()
    file, _, dotted = name.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in dotted.split("."):
        node = next(child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == part)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    lines = text.splitlines()
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    code_lines = lines[first - 1 : node.end_lineno]
    if ast.get_docstring(node) is not None:
        doc = node.body[0]
        assert doc.end_lineno is not None
        del code_lines[doc.lineno - first : doc.end_lineno - first + 1]
    code = highlight(
        textwrap.dedent("\n".join(code_lines)), PythonLexer(), HtmlFormatter(cssclass="highlight")
    )
    return f'<div class="source" tabindex="0"><p><code>{html.escape(name)}</code></p>{code}</div>'


def _glossary(source: str) -> str:
    """Return the table of a file of terms: their anchors, chapters and translations."""
    lines = (DOCS / source.strip()).read_text(encoding="utf-8").splitlines()
    chapters = {int(path.name[:2]): path.stem for path in (DOCS / COURSE).glob("[0-9]*.md")}
    rows = []
    for line in lines[1:]:
        term, synonyms, chapter, *words = map(html.escape, line.split("\t"))
        lesson = chapters.get(int(chapter))
        number = f'<a href="../{lesson}/">{chapter}</a>' if lesson else chapter
        cells = [f'<th scope="row" id="{slugify(term, "-")}">{term}</th>', f"<td>{synonyms}</td>"]
        for language, word, remark in zip(("es", "pl", "zh"), words[::2], words[1::2], strict=True):
            small = f"<br><small>{remark}</small>" if remark else ""
            cells.append(f'<td lang="{language}">{word}{small}</td>')
        rows.append(f"<tr>{''.join(cells)}<td>{number}</td></tr>")
    names = ("English", "also called", *list(NAMES.values())[1:], "chapter")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def on_config(config: Any) -> Any:
    """Register equations and fences."""
    config["markdown_extensions"].append(_Equations())
    fences = config["mdx_configs"].setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences += [
        {"name": name, "class": name, "format": _fence(make)}
        for name, make in {
            "math": display_equations,
            "exercise": _exercise,
            "predict": _predict,
            "source": _source,
            "glossary": _glossary,
        }.items()
    ]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Set the language and chapter of a page's fences."""
    chapter = re.match(r"\d*", Path(page.file.src_uri).name)
    _page.update(
        language=language_of(page.file.src_uri), chapter=chapter[0] if chapter else "", predictions=0
    )
    return markdown


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replace empty header cells of tables, leave exercises out of the search, and add their counts.

    The anchors of the glossary and of exercises are added to those to which a link may lead.
    """
    page.present_anchor_ids.update(re.findall(r'\sid="([^"]+)"', content))
    content = content.replace('<section class="exercise"', '<section data-search-exclude class="exercise"')
    content = re.sub(r"<th[^>]*>(&nbsp;)?</th>", "<td></td>", content)
    if not page.file.src_uri.startswith(f"{COURSE}/"):
        return content
    counts = Counter(number.partition(".")[0] for number in all_exercises())
    data = html.escape(json.dumps(counts, separators=(",", ":")), quote=True)
    return f'{content}<div hidden data-exercise-counts="{data}"></div>'


def on_post_page(output: str, **_: Any) -> str:
    """Remove indentation and uncoloured markup of code, which is a sixth of a page."""
    parts = re.split(
        r"(<(?:pre|textarea|script|style)\b.*?</(?:pre|textarea|script|style)>)", output, flags=re.DOTALL
    )
    parts[::2] = [re.sub(r"\s*\n\s*", "\n", part) for part in parts[::2]]
    output = "".join(parts)
    output = re.sub(r'<span title="[^"]+">([^<]*)</span>', r"\1", output)
    output = re.sub(r'<span class="[nopw]">((?:<a\b[^>]*>)?[^<]*(?:</a>)?)</span>', r"\1", output)
    return re.sub(r'<a class="autorefs autorefs-internal" title="[^"]*"', "<a", output)


def write_models(source: Path, target: Path) -> None:
    """Write the compared models, with compressed weights and one tokeniser for all."""
    shutil.copytree(
        source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.spm", "*.safetensors")
    )
    shutil.copyfile(next(source.glob("*/source.spm")), target / "source.spm")
    models = json.loads((source / "models.json").read_text(encoding="utf-8"))
    for model in models:
        weights = (source / model["name"] / "engine.safetensors").read_bytes()
        compressed = target / model["name"] / "engine.safetensors.gz"
        compressed.write_bytes(gzip.compress(weights, mtime=0))
        model["bytes"] = sum(path.stat().st_size for path in compressed.parent.iterdir())
    (target / "models.json").write_text(json.dumps(models, ensure_ascii=False), encoding="utf-8")


def smaller_figure(svg: str) -> str:
    """Return a figure of the course without unused rules and repeated attributes."""
    start, style, content = re.split(r"(?<=<style>)|(?=</style>)", svg, maxsplit=2)
    used = {name for names in re.findall(r'class="([^"]*)"', content) for name in names.split()}
    style = re.sub(r"\.([\w-]+) \{[^}]*\}\s*", lambda rule: rule[0] if rule[1] in used else "", style)
    if content.count(' rx="3"') == content.count("<rect"):
        style, content = f"{style.rstrip()}\nrect {{ rx: 3px; }}\n", content.replace(' rx="3"', "")
    grid = r'<rect x="([\d.-]+)" y="([\d.-]+)" width="([\d.]+)" height="([\d.]+)" class="grid"/>\n?'
    if cells := re.findall(grid, content):  # one outline for all cells
        path = "".join(f"M{x} {y}h{width}v{height}h-{width}z" for x, y, width, height in cells)
        content = re.sub(grid, f'<path class="grid" d="{path}"/>\n', content, count=1)
        content = re.sub(grid, "", content)
    content = re.sub(r'(?<=opacity=")[\d.]+(?=")', lambda number: f"{float(number[0]):g}", content)
    return f"{start}{style}{content}"


def on_post_build(config: Any) -> None:
    """Copy the engine, the view of attention, and the models in int8 to the laboratory.

    Raises:
        ValueError: a fence of a page failed.
    """
    if FAILED_FENCES:
        raise ValueError("; ".join(FAILED_FENCES))
    lab = Path(config["site_dir"]) / "lab"
    (lab / "uwaga").mkdir(parents=True, exist_ok=True)
    for name in ENGINE:
        shutil.copyfile(ROOT / "web" / "lib" / name, lab / "uwaga" / name)
    copy_python(lab / "python")
    (lab / "attention.js").write_text(view_module(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        quantise(BUNDLED, Path(folder) / "model")
        shutil.copytree(Path(folder) / "model", lab / "model", dirs_exist_ok=True)
    write_models(ROOT / "docs/learn/models", lab / "models")
    for path in (Path(config["site_dir"]) / "figures" / COURSE).glob("*.svg"):
        path.write_text(smaller_figure(path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in (Path(config["site_dir"]) / "assets").rglob("*.map"):  # unused files of the theme
        path.unlink()

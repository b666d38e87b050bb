r"""Display of the Markdown and equations of exercises in a terminal, such as ``$\alpha_{ij}$`` as α_ij."""

from __future__ import annotations

import re
import textwrap
import unicodedata

WIDTH = 100
"""Default width of paragraphs in columns."""
EQUATION = re.compile(r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<![\s\\])\$(?![\w$])")
"""An inline equation, as in docs/hooks.py."""
SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ",
    "lambda": "λ", "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "psi": "ψ",
    "omega": "ω", "Delta": "Δ", "Sigma": "Σ", "Omega": "Ω", "cdot": "·", "times": "×", "odot": "⊙",
    "circ": "∘", "cap": "∩",
    "cup": "∪", "in": "∈", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈",
    "propto": "∝", "to": "→", "rightarrow": "→", "sum": "Σ", "prod": "Π", "infty": "∞", "partial": "∂",
    "ldots": "…", "dots": "…", "cdots": "…", "top": "ᵀ", "pm": "±", "mid": "|", "quad": " ", "qquad": " ",
    "langle": "⟨", "rangle": "⟩",
}  # fmt: skip
"""LaTeX commands that represent one character. Other commands, such as ``\\exp``, are shown by name."""
EMPHASIS_START, EMPHASIS_END = "\ue000", "\ue001"
"""The start and end marks of emphasis, which :func:`style_text` replaces."""
SUPERSCRIPTS = dict(zip("0123456789+-−()nTᵀ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁽⁾ⁿᵀᵀ", strict=True))
TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_]|\s+|[^\\{}^_\s]")


def plain_equation(source: str) -> str:
    r"""Return an equation as plain text, such as ``a / (b + c)`` for ``\frac{a}{b + c}``."""
    return re.sub(r" +", " ", _Equation(source).row()).strip()


class _Equation:
    """A parser of an equation; ``tokens`` are the remaining tokens in reverse order."""

    def __init__(self, source: str) -> None:
        self.tokens = TOKEN.findall(source)[::-1]

    def row(self, end: str | None = None) -> str:
        text = ""
        while self.tokens and self.tokens[-1] != end:
            text += self.next(text)
        if self.tokens:
            self.tokens.pop()
        return text

    def argument(self) -> str:
        while self.tokens and self.tokens[-1].isspace():
            self.tokens.pop()
        return self.next("") if self.tokens else ""

    def next(self, text_before: str) -> str:
        token = self.tokens.pop()
        if token == "{":  # noqa: S105 (not a password)
            return self.row("}")
        if token == "^":  # noqa: S105
            exponent = self.argument()
            if all(character in SUPERSCRIPTS for character in exponent):
                return "".join(SUPERSCRIPTS[character] for character in exponent)
            return "^" + _parenthesise(exponent)
        if token == "_":  # noqa: S105
            index = self.argument()
            return "_" + (index if re.fullmatch(r"\w+", index) else f"({index})")
        if not token.startswith("\\"):
            return " " if token.isspace() else token
        return self.command(token[1:], text_before)

    def command(self, name: str, text_before: str) -> str:
        if name in SYMBOLS:
            return SYMBOLS[name]
        if name in ("frac", "tfrac", "dfrac"):
            quotient = f"{_parenthesise(self.argument())} / {_parenthesise(self.argument())}"
            return quotient if self.following() in ("", *"=,)}+-.") else f"({quotient})"
        if name == "sqrt":
            argument = self.argument()
            return "√" + (argument if re.fullmatch(r"\w+", argument) else f"({argument})")
        if name in ("mathrm", "text", "operatorname", "mathbf", "mathit", "boldsymbol"):
            return self.argument()
        if name in ("left", "right", "bigl", "bigr", "big", "displaystyle"):
            return ""
        if name in (",", ";", ":", " "):
            return " "
        if name == "!":
            return ""
        if not name.isalpha():
            return name
        next_character = self.following(skip_spaces=False)[:1]
        space_before = text_before[-1:].isalnum() or text_before[-1:] == ")"
        space_after = next_character.isalnum() or next_character == "\\"
        return f"{' ' * space_before}{name}{' ' * space_after}"

    def following(self, skip_spaces: bool = True) -> str:
        """Return the next token without consuming it, or an empty string at the end."""
        tokens = (token for token in reversed(self.tokens) if not (skip_spaces and token.isspace()))
        return next(tokens, "")


def _parenthesise(text: str) -> str:
    """Return a part of a fraction, in parentheses if it is a sum or product."""
    text = text.strip()
    return text if re.fullmatch(r"[\w√′'.]+|\([^()]*\)|\|[^|]*\|", text) else f"({text})"


def plain_text(source: str) -> str:
    """Return one line or paragraph of Markdown as plain text; code keeps its backticks.

    Emphasis is marked for :func:`style_text`.
    """
    parts = re.split(r"(`[^`]*`)", EQUATION.sub(lambda match: f"`\0{plain_equation(match[1])}`", source))
    for index, part in enumerate(parts):
        if part.startswith("`\0"):
            parts[index] = part[2:-1]
        elif not part.startswith("`"):
            parts[index] = re.sub(r"(\*\*?)(?=\S)(.+?)(?<=\S)\1", f"{EMPHASIS_START}\\2{EMPHASIS_END}", part)
    return "".join(parts)


def plain_markdown(source: str, width: int = WIDTH) -> str:
    """Return Markdown as text for a terminal, with paragraphs filled to a width and code indented."""
    blocks: list[str] = []
    for block in re.split(r"(^```.*?^```$)", source.strip(), flags=re.DOTALL | re.MULTILINE):
        if block.startswith("```"):
            blocks.append(textwrap.indent("\n".join(block.splitlines()[1:-1]), "    "))
        else:
            blocks += [_paragraph(paragraph, width) for paragraph in block.split("\n\n") if paragraph.strip()]
    return "\n\n".join(blocks)


def _paragraph(source: str, width: int) -> str:
    lines = source.strip("\n").splitlines()
    if any(re.match(r"\s*([-|]|\d+\.) ?", line) for line in lines):  # a list or table
        return "\n".join(plain_text(line) for line in lines)
    text = lines[0]
    for line in lines[1:]:
        text += line.strip() if _is_wide(text[-1:]) and _is_wide(line.strip()[:1]) else " " + line.strip()
    text = plain_text(text)
    return text if any(map(_is_wide, text)) else textwrap.fill(text, width, break_on_hyphens=False)


def _is_wide(character: str) -> bool:
    """Return whether a character takes two columns, as Chinese characters do."""
    return bool(character) and unicodedata.east_asian_width(character) in "WF"


def shorten(text: str, width: int) -> str:
    """Return a line, cut after a word if it is wider than ``width`` columns."""
    columns = 0
    for index, character in enumerate(text):
        columns += 1 + _is_wide(character)
        if columns > width:
            start = text[:index]
            start = start if _is_wide(character) else start.rpartition(" ")[0]
            return start + EMPHASIS_END * (start.count(EMPHASIS_START) - start.count(EMPHASIS_END)) + " …"
    return text


def style_text(text: str) -> str:
    """Return a text with its emphasis as italics; typer removes the codes if the output is not a terminal."""
    return text.replace(EMPHASIS_START, "\x1b[3m").replace(EMPHASIS_END, "\x1b[23m")

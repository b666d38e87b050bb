r"""Show the Markdown and the equations of exercises in a terminal: ``$\alpha_{ij}$`` as α_ij."""

from __future__ import annotations

import re
import textwrap
import unicodedata

WIDTH = 100
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
"""LaTeX commands that represent one character. Others, such as ``\\exp``, are shown by name."""
START, END = "\ue000", "\ue001"
"""Marks of emphasis, each as wide as a character, which :func:`style_text` replaces."""
RAISED = dict(zip("0123456789+-−()nTᵀ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁽⁾ⁿᵀᵀ", strict=True))
TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_]|\s+|[^\\{}^_\s]")


def plain_equation(source: str) -> str:
    r"""Return an equation in characters: ``\frac{a}{b + c}`` as ``a / (b + c)``."""
    return re.sub(r" +", " ", _Equation(source).row()).strip()


class _Equation:
    """The remaining tokens of an equation."""

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

    def next(self, before: str) -> str:
        token = self.tokens.pop()
        if token == "{":  # noqa: S105 (not a password)
            return self.row("}")
        if token == "^":  # noqa: S105
            exponent = self.argument()
            if all(character in RAISED for character in exponent):
                return "".join(RAISED[character] for character in exponent)
            return "^" + _parenthesise(exponent)
        if token == "_":  # noqa: S105
            index = self.argument()
            return "_" + (index if re.fullmatch(r"\w+", index) else f"({index})")
        if not token.startswith("\\"):
            return " " if token.isspace() else token
        return self.command(token[1:], before)

    def command(self, name: str, before: str) -> str:
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
        after = self.following(skip_spaces=False)[:1]
        space_before = before[-1:].isalnum() or before[-1:] == ")"
        space_after = after.isalnum() or after == "\\"
        return f"{' ' * space_before}{name}{' ' * space_after}"

    def following(self, skip_spaces: bool = True) -> str:
        """Return the next token, or an empty text at the end."""
        tokens = (token for token in reversed(self.tokens) if not (skip_spaces and token.isspace()))
        return next(tokens, "")


def _parenthesise(text: str) -> str:
    """Return a part of a fraction, in parentheses if it is a sum or product."""
    text = text.strip()
    return text if re.fullmatch(r"[\w√′'.]+|\([^()]*\)|\|[^|]*\|", text) else f"({text})"


def plain_text(source: str) -> str:
    """Return one line or paragraph of Markdown without its markup; code keeps its backticks.

    :func:`style_text` shows the emphasis.
    """
    parts = re.split(r"(`[^`]*`)", EQUATION.sub(lambda match: f"`\0{plain_equation(match[1])}`", source))
    for index, part in enumerate(parts):
        if part.startswith("`\0"):
            parts[index] = part[2:-1]
        elif not part.startswith("`"):
            parts[index] = re.sub(r"(\*\*?)(?=\S)(.+?)(?<=\S)\1", f"{START}\\2{END}", part)
    return "".join(parts)


def plain_markdown(source: str, width: int = WIDTH) -> str:
    """Return a text of Markdown for a terminal: paragraphs filled to a width, code indented."""
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
    """Return whether a character is Chinese; Chinese has no spaces between words."""
    return bool(character) and unicodedata.east_asian_width(character) in "WF"


def shorten(text: str, width: int) -> str:
    """Return the start of a line that fits into a width, cut after a word."""
    columns = 0
    for index, character in enumerate(text):
        columns += 1 + _is_wide(character)
        if columns > width:
            start = text[:index]
            start = start if _is_wide(character) else start.rpartition(" ")[0]
            return start + END * (start.count(START) - start.count(END)) + " …"
    return text


def style_text(text: str) -> str:
    """Return a text with its emphasis as italics, which are left out if the output is not a terminal."""
    return text.replace(START, "\x1b[3m").replace(END, "\x1b[23m")

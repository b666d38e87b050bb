"""The regular expressions of the source, and texts that make backtracking slow, from parse trees."""

import ast
import builtins
import importlib
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import uwaga

SOURCE = Path(uwaga.__file__).parents[1]
FUNCTIONS = frozenset(
    ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
)
ANCHORED = frozenset(("match", "fullmatch"))
"""Methods that match at one position only."""
MIN_REPETITIONS = 20
"""Minimum upper bound of repetitions of a repeat that can be slow."""
ALPHABET = " a1-.<\n\t\rA_,:;|>{}[]()\"'\\/&%$#@!?*+=~`^\u00e9\u6f22\u00a0\u2026\u0301"
MAX_TEXTS = 5
"""Maximum number of texts to return for each repeat."""
REPEATS = frozenset((codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT))
CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


class SourcePattern(NamedTuple):
    """A pattern of the source, and the methods called on it; ``methods`` is empty if unknown."""

    location: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


def source_patterns(values: Mapping[str, Mapping[str, object]]) -> Iterator[SourcePattern]:
    """Yield the patterns of all modules.

    Args:
        values: for each module, the local variables that its patterns are built from.

    Raises:
        NameError: a pattern is built from another local variable.
    """
    paths = sorted(SOURCE.glob("uwaga*/**/*.py"))
    trees = {_module(path): ast.parse(path.read_text("utf-8")) for path in paths}
    methods_of_constants = _methods_of_constants(trees)
    for module, tree in trees.items():
        calls = [node for node in ast.walk(tree) if _is_pattern(node)]
        if not calls:
            continue
        names = {**vars(builtins), **vars(importlib.import_module(module)), **values.get(module, {})}
        constants = {
            id(node.value): node.targets[0].id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for call in calls:
            function = call.func.attr
            constant = constants.get(id(call), "") if function == "compile" else ""
            location = f"{module}.{constant or f'line {call.lineno}'}"
            argument = call.args[0]
            for expression in (
                (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,)
            ):
                try:
                    pattern = re.compile(_evaluate(expression, names), _flags(call, names))
                except NameError as error:
                    raise NameError(f"{location}: {error}; add its value to the test") from None
                methods = (
                    methods_of_constants.get((module, constant), frozenset())
                    if function == "compile"
                    else {function}
                )
                yield SourcePattern(location, pattern, frozenset(methods))


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _flags(call: ast.Call, names: Mapping[str, object]) -> int:
    position = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(call.func.attr, 2)
    flags = next((key.value for key in call.keywords if key.arg == "flags"), None)
    flags = call.args[position] if flags is None and len(call.args) > position else flags
    return 0 if flags is None else _evaluate(flags, names)


def _is_pattern(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FUNCTIONS
    )


def _methods_of_constants(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], frozenset[str]]:
    """Return the methods of constants by module and name, without constants that are passed as arguments."""
    methods: dict[tuple[str, str], set[str]] = {}
    other: set[tuple[str, str]] = set()
    for module, tree in trees.items():
        origins = {
            (name.asname or name.name): (node.module, name.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for name in node.names
        }
        called = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                called.add(id(node.value))
                if node.attr not in ("pattern", "flags"):
                    methods.setdefault(origins.get(node.value.id, (module, node.value.id)), set()).add(
                        node.attr
                    )
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
                other.add(origins.get(node.id, (module, node.id)))
    return {key: frozenset(names) for key, names in methods.items() if key not in other}


def _evaluate(node: ast.expr, names: Mapping[str, object]) -> Any:
    return eval(compile(ast.Expression(node), "pattern", "eval"), dict(names))


class Attack(NamedTuple):
    """A text with a part to be repeated: prefix, repeated part, and end."""

    before: str
    repeated: str
    after: str

    def text(self, size: int) -> str:
        """Return a text of about ``size`` characters."""
        return self.before + self.repeated * (size // len(self.repeated) + 1) + self.after


def attacks(pattern: re.Pattern[Any]) -> list[Attack]:
    """Return texts for each repeat of a pattern: a prefix, a repeated part, and an end without a match."""
    source, flags = pattern.pattern, pattern.flags
    if isinstance(source, bytes):
        source, flags = source.decode("latin-1"), flags | re.ASCII
    texts: dict[Attack, None] = {}
    for before, repeated in _repeats(parser.parse(source, flags), ""):
        for after in ("\0", "\n"):
            texts[Attack(before, repeated, after)] = None
        if before:
            texts[Attack("", before + repeated, "\0")] = None
            texts[Attack("", before, "\0")] = None
    return list(texts)


def _repeats(nodes: Any, before: str) -> Iterator[tuple[str, str]]:
    """Yield the prefix of each repeat and the texts to repeat, also with those of the nodes that follow."""
    nodes = list(nodes)
    for number, (code, argument) in enumerate(nodes):
        for inner in _subpatterns(code, argument):
            yield from _repeats(inner, before)
        if code in REPEATS and argument[1] >= MIN_REPETITIONS:
            texts = [text for text in _samples(argument[2], MIN_REPETITIONS) if text]
            following = [text for text in _samples(nodes[number + 1 : number + 4], 2) if text][:2]
            texts = [*texts[:MAX_TEXTS], *following, *map("".join, product(texts[:2], following))]
            for text in dict.fromkeys(texts):
                yield before, text
        before += _samples([(code, argument)], 1)[0]


def _subpatterns(code: Any, argument: Any) -> list[Any]:
    if code in REPEATS:
        return [argument[2]]
    if code is codes.SUBPATTERN:
        return [argument[3]]
    if code is codes.BRANCH:
        return list(argument[1])
    if code is codes.ATOMIC_GROUP:
        return [argument]
    return [argument[1]] if code in (codes.ASSERT, codes.ASSERT_NOT) else []


def _samples(nodes: Any, limit: int) -> list[str]:
    """Return at most ``limit`` texts that match a sequence, with as few repetitions as possible."""
    texts = [""]
    for code, argument in nodes:
        parts = list(dict.fromkeys(_node_samples(code, argument, limit)))[:limit]
        texts = [text + part for text, part in product(texts, parts)][:limit]
    return texts


def _node_samples(code: Any, argument: Any, limit: int) -> list[str]:
    if code is codes.LITERAL:
        return [chr(argument)]
    if code in (codes.IN, codes.NOT_LITERAL, codes.ANY):
        return _characters(code, argument)
    if code in REPEATS:
        low, _, inner = argument
        return [text * low for text in _samples(inner, limit)] if low else ["", *_samples(inner, limit)]
    if code is codes.BRANCH:
        return [text for branch in argument[1] for text in _samples(branch, 1)]
    inner = _subpatterns(code, argument)
    return [""] if code in (codes.ASSERT, codes.ASSERT_NOT) or not inner else _samples(inner[0], limit)


def _characters(code: Any, argument: Any) -> list[str]:
    """Return characters of a set: those in the alphabet, or else the first of each range."""
    members = [character for character in ALPHABET if _allows(code, argument, character)]
    if members or code is not codes.IN:
        return members
    return [
        chr(value if kind is codes.LITERAL else value[0])
        for kind, value in argument
        if kind in (codes.LITERAL, codes.RANGE)
    ]


def _allows(code: Any, argument: Any, character: str) -> bool:
    if code is codes.ANY:
        return character != "\n"
    if code is codes.NOT_LITERAL:
        return ord(character) != argument
    negated = argument[0][0] is codes.NEGATE
    return negated != any(_is_in(kind, value, character) for kind, value in argument)


def _is_in(kind: Any, value: Any, character: str) -> bool:
    if kind is codes.LITERAL:
        return ord(character) == value
    if kind is codes.RANGE:
        return value[0] <= ord(character) <= value[1]
    return kind is codes.CATEGORY and re.match(CATEGORIES[value], character) is not None

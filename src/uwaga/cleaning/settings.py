"""Settings of a cleaning: its languages and rules."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import uwaga.cleaning.rules  # noqa: F401 (fills the registry)
from uwaga.cleaning.rule import RULES, AnyRule, ScoredRule
from uwaga.errors import SettingsError, shown
from uwaga.settings import parse, read_yaml
from uwaga.settings.parsing import StrictModel

GROUPS = ("languages", "rules")


class CleaningSettings:
    """The settings of the rules by name, in the order in which they apply, and two language codes, maybe
    empty.
    """

    def __init__(self, rules: Mapping[str, StrictModel], languages: tuple[str, str] = ("", "")) -> None:
        self.rules, self.languages = dict(rules), languages

    @classmethod
    def of(
        cls,
        rules: Mapping[str, Mapping[str, Any] | None] | Sequence[str] | None = None,
        languages: tuple[str, str] = ("", ""),
        where: str = "rules",
    ) -> CleaningSettings:
        """Return the settings of raw values.

        Args:
            rules: names of rules, or their settings by name, in the order in which they apply; None for the
                default rules, without those that need languages if none are given.
            languages: codes of the source and the target language.
            where: name of the values' place in messages.

        Raises:
            SettingsError: a rule or setting is unknown, or a rule needs languages and none are given.
        """
        if rules is None:
            rules = default_rules(languages)
        if not isinstance(rules, Mapping):
            rules = dict.fromkeys(rules)
        parsed = {}
        for name, values in rules.items():
            kind = _rule(str(name), where)
            if kind.needs_languages and not all(languages):
                raise SettingsError(
                    f"{where}: the rule {name!r} needs to know the languages: --from and --to, or "
                    "`languages` in the settings file"
                )
            parsed[str(name)] = parse(kind.settings_type, values or {}, f"{where}.{name}")
        if not parsed:
            raise SettingsError(f"{where}: no rule is named; there are: {', '.join(RULES)}")
        _check_order(parsed, where)
        return cls(parsed, languages)

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> CleaningSettings:
        """Return the settings of a YAML file's values: ``languages`` and ``rules``.

        Raises:
            SettingsError: as :meth:`of`, or for another key.
        """
        for key in values:
            if key not in GROUPS:
                raise SettingsError(f"{where}: unknown setting {shown(key)}; known here: {', '.join(GROUPS)}")
        rules, languages = values.get("rules"), values.get("languages", ("", ""))
        if not isinstance(languages, list | tuple) or [type(code) for code in languages] != [str, str]:
            raise SettingsError(
                f"{where}: languages must be two codes, such as [en, de], not {shown(languages)}"
            )
        if isinstance(rules, Mapping):
            for name, inner in rules.items():
                if inner is not None and not isinstance(inner, Mapping):
                    raise SettingsError(
                        f"{where}: rules.{name} must be a group of settings, not {shown(inner)}"
                    )
        elif rules is not None and not (
            isinstance(rules, list) and all(isinstance(name, str) for name in rules)
        ):
            raise SettingsError(f"{where}: rules must be names, or settings by name, not {shown(rules)}")
        return cls.of(rules, (languages[0], languages[1]), f"{where}: rules")

    def make(self) -> list[AnyRule]:
        """Create the rules; they are not prepared yet."""
        return [RULES[name](settings, self.languages) for name, settings in self.rules.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return the values that :meth:`read` accepts."""
        rules = {name: settings.model_dump(mode="json") for name, settings in self.rules.items()}
        return {"languages": list(self.languages), "rules": rules}


def default_rules(languages: tuple[str, str]) -> list[str]:
    """Return the names of the default rules for two language codes."""
    named = all(languages)
    return [name for name, kind in RULES.items() if kind.default and (named or not kind.needs_languages)]


def load_cleaning(path: Path) -> dict[str, Any]:
    """Return the raw values of a settings file of a cleaning.

    Raises:
        SettingsError: the file is missing, cannot be read or does not hold a YAML mapping.
    """
    if not path.exists():
        raise SettingsError(f"{path}: no such settings file; `uwaga clean --explain > {path}` writes one")
    return read_yaml(path)


def check_known(names: Iterable[str], where: str) -> None:
    """Refuse unknown names of rules.

    Raises:
        SettingsError: a name is unknown; the message suggests the nearest.
    """
    for name in names:
        _rule(name, where)


def settings_template(settings: CleaningSettings) -> str:
    """Return a YAML settings file with every rule and setting; rules that are not used are comments."""
    lines = [f"languages: [{', '.join(map(repr, settings.languages))}]", "rules:"]
    names = [*settings.rules, *(name for name in RULES if name not in settings.rules)]
    for name in names:
        kind = RULES[name]
        mark = "" if name in settings.rules else "# "
        values = settings.rules.get(name) or kind.settings_type()
        lines.append(f"  {mark}{name}:  # {kind.summary}")
        for key, field in kind.settings_type.model_fields.items():
            written = json.dumps(getattr(values, key), ensure_ascii=False)  # JSON is YAML
            lines.append(f"  {mark}  {key}: {written}  # {field.description}")
    return "\n".join(lines) + "\n"


def _rule(name: str, where: str) -> type[AnyRule]:
    if name not in RULES:
        near = difflib.get_close_matches(name[:80], list(RULES), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(RULES)}"
        raise SettingsError(f"{where}: no rule is named {shown(name)}; {hint}")
    return RULES[name]


def _check_order(rules: Mapping[str, StrictModel], where: str) -> None:
    scored = [name for name in rules if issubclass(RULES[name], ScoredRule)]
    if scored and scored != list(rules)[-1:]:
        raise SettingsError(f"{where}: {scored[0]!r} must be the last rule: it is by far the slowest")

"""Settings of a cleaning: the languages, and the rules with theirs."""

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
    """The rules to ask, in their order, and the codes of the two languages (empty where not known)."""

    def __init__(self, rules: Mapping[str, StrictModel], languages: tuple[str, str] = ("", "")) -> None:
        self.rules, self.languages = dict(rules), languages

    @classmethod
    def of(
        cls,
        rules: Mapping[str, Mapping[str, Any] | None] | Sequence[str] | None = None,
        languages: tuple[str, str] = ("", ""),
        where: str = "rules",
    ) -> CleaningSettings:
        """Settings from raw values.

        Args:
            rules: names of rules, or their settings by name, in the order in which they are to be asked;
                None for the usual ones, without those that need languages where none are named.
            languages: codes of the source and the target language.
            where: what error messages call the place of the values.

        Raises:
            SettingsError: an unknown rule or setting, or a rule that needs languages and is not told.
        """
        if rules is None:
            rules = default_rules(languages)
        if not isinstance(rules, Mapping):
            rules = dict.fromkeys(rules)
        found = {}
        for name, values in rules.items():
            kind = _rule(str(name), where)
            if kind.needs_languages and not all(languages):
                raise SettingsError(
                    f"{where}: the rule {name!r} needs to know the languages: --from and --to, or "
                    "`languages` in the settings file"
                )
            found[str(name)] = parse(kind.settings_type, values or {}, f"{where}.{name}")
        if not found:
            raise SettingsError(f"{where}: no rule is named; there are: {', '.join(RULES)}")
        _check_order(found, where)
        return cls(found, languages)

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> CleaningSettings:
        """Settings from what a YAML file holds: ``languages`` and ``rules``.

        Raises:
            SettingsError: as :meth:`of`, or another key.
        """
        for key in values:
            if key not in GROUPS:
                raise SettingsError(f"{where}: unknown setting {shown(key)}; known here: {', '.join(GROUPS)}")
        rules, languages = values.get("rules"), values.get("languages", ("", ""))
        if not isinstance(languages, list | tuple) or [type(one) for one in languages] != [str, str]:
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
            isinstance(rules, list) and all(isinstance(one, str) for one in rules)
        ):
            raise SettingsError(f"{where}: rules must be names, or settings by name, not {shown(rules)}")
        return cls.of(rules, (languages[0], languages[1]), f"{where}: rules")

    def make(self) -> list[AnyRule]:
        """The rules, not prepared yet."""
        return [RULES[name](settings, self.languages) for name, settings in self.rules.items()]

    def to_dict(self) -> dict[str, Any]:
        """What :meth:`read` takes."""
        rules = {name: settings.model_dump(mode="json") for name, settings in self.rules.items()}
        return {"languages": list(self.languages), "rules": rules}


def default_rules(languages: tuple[str, str]) -> list[str]:
    """The names of the rules that are asked unless somebody names others."""
    known = all(languages)
    return [name for name, kind in RULES.items() if kind.default and (known or not kind.needs_languages)]


def load_cleaning(path: Path) -> dict[str, Any]:
    """The raw values of a settings file of cleaning.

    Raises:
        SettingsError: it is missing, cannot be read or does not hold a YAML mapping.
    """
    if not path.exists():
        raise SettingsError(f"{path}: no such settings file; `uwaga clean --explain > {path}` writes one")
    return read_yaml(path)


def check_known(names: Iterable[str], where: str) -> None:
    """Refuse a name that no rule has.

    Raises:
        SettingsError: it names the nearest.
    """
    for name in names:
        _rule(name, where)


def settings_template(settings: CleaningSettings) -> str:
    """A settings file of YAML with every rule and setting; rules that are not asked are comments."""
    lines = [f"languages: [{', '.join(repr(one) for one in settings.languages)}]", "rules:"]
    names = [*settings.rules, *(name for name in RULES if name not in settings.rules)]
    for name in names:
        kind, asked = RULES[name], name in settings.rules
        mark = "" if asked else "# "
        values = settings.rules.get(name) or kind.settings_type()
        lines.append(f"  {mark}{name}:  # {kind.summary}")
        for key, field in kind.settings_type.model_fields.items():
            written = json.dumps(getattr(values, key), ensure_ascii=False)  # which is YAML too
            lines.append(f"  {mark}  {key}: {written}  # {field.description}")
    return "\n".join(lines) + "\n"


def _rule(name: str, where: str) -> type[AnyRule]:
    if name not in RULES:
        near = difflib.get_close_matches(name[:80], list(RULES), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(RULES)}"
        raise SettingsError(f"{where}: no rule is called {shown(name)}; {hint}")
    return RULES[name]


def _check_order(found: Mapping[str, StrictModel], where: str) -> None:
    scored = [name for name in found if issubclass(RULES[name], ScoredRule)]
    if scored and scored != list(found)[-1:]:
        raise SettingsError(f"{where}: {scored[0]!r} must be the last rule: it is by far the dearest")

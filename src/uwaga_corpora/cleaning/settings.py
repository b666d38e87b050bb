"""Settings of corpus cleaning: the languages and the rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from uwaga.errors import SettingsError, quoted
from uwaga.plugins import load_listed_plugins
from uwaga.settings import parse, read_yaml
from uwaga.settings.parsing import StrictModel
from uwaga_corpora.cleaning.rule import RULES, AnyRule, ScoredRule

SETTING_GROUPS = ("plugins", "languages", "rules")


class CleaningSettings:
    """Settings of the rules by name, in order of application, and two language codes, which may be empty."""

    def __init__(self, rules: Mapping[str, StrictModel], languages: tuple[str, str] = ("", "")) -> None:
        self.rules, self.languages = dict(rules), languages

    @classmethod
    def from_rules(
        cls,
        rules: Mapping[str, Mapping[str, Any] | None] | Sequence[str] | None = None,
        languages: tuple[str, str] = ("", ""),
        location: str = "rules",
    ) -> CleaningSettings:
        """Create settings from raw values.

        Args:
            rules: names of rules, or their settings by name, in order of application; None for the default
                rules, without those that need languages if none are given.
            languages: codes of the source and target language.
            location: name of the values in messages.

        Raises:
            SettingsError: a rule or setting is unknown, or a rule needs languages and none are given.
        """
        if rules is None:
            rules = default_rules(languages)
        if not isinstance(rules, Mapping):
            rules = dict.fromkeys(rules)
        parsed_settings = {}
        for name, values in rules.items():
            rule_type = _rule(str(name), location)
            if rule_type.needs_languages and not all(languages):
                raise SettingsError(
                    f"{location}: the rule {name!r} needs to know the languages; give --from and --to, or "
                    "`languages` in the settings file"
                )
            parsed_settings[str(name)] = parse(rule_type.settings_type, values or {}, f"{location}.{name}")
        if not parsed_settings:
            raise SettingsError(f"{location}: no rule is given; the rules are: {', '.join(RULES)}")
        _check_order(parsed_settings, location)
        return cls(parsed_settings, languages)

    @classmethod
    def read(cls, values: Mapping[str, Any], location: str) -> CleaningSettings:
        """Create settings from the values of a YAML file: ``languages`` and ``rules``.

        Raises:
            SettingsError: as in :meth:`from_rules`, or a key is unknown.
        """
        for key in values:
            if key not in SETTING_GROUPS:
                raise SettingsError(
                    f"{location}: unknown setting {quoted(key)}; the settings here are "
                    f"{', '.join(SETTING_GROUPS)}"
                )
        rules, languages = values.get("rules"), values.get("languages", ("", ""))
        if not isinstance(languages, list | tuple) or [type(code) for code in languages] != [str, str]:
            raise SettingsError(
                f"{location}: languages must be two codes, such as [en, de], not {quoted(languages)}"
            )
        if isinstance(rules, Mapping):
            for name, group in rules.items():
                if group is not None and not isinstance(group, Mapping):
                    raise SettingsError(
                        f"{location}: rules.{name} must be a group of settings, not {quoted(group)}"
                    )
        elif rules is not None and not (
            isinstance(rules, list) and all(isinstance(name, str) for name in rules)
        ):
            raise SettingsError(
                f"{location}: rules must be a list of names, or settings by name, not {quoted(rules)}"
            )
        return cls.from_rules(rules, (languages[0], languages[1]), f"{location}: rules")

    def create_rules(self) -> list[AnyRule]:
        """Create the rules, without preparing them."""
        return [RULES[name](settings, self.languages) for name, settings in self.rules.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return the values that :meth:`read` accepts."""
        rules = {name: settings.model_dump(mode="json") for name, settings in self.rules.items()}
        return {"languages": list(self.languages), "rules": rules}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the raw values, since a child process must load plugins before their rules."""
        return CleaningSettings.read, (self.to_dict(), "settings")


def default_rules(languages: tuple[str, str]) -> list[str]:
    """Return the names of the default rules for two language codes."""
    has_languages = all(languages)
    return [
        name
        for name, rule_type in RULES.items()
        if rule_type.default and (has_languages or not rule_type.needs_languages)
    ]


def load_cleaning(path: Path) -> dict[str, Any]:
    """Return the raw values of a settings file for corpus cleaning, after loading the plugins that it lists.

    Raises:
        SettingsError: the file is missing, cannot be read or is not a YAML mapping.
    """
    if not path.exists():
        raise SettingsError(f"{path}: no such settings file; `uwaga clean --explain > {path}` writes one")
    values = read_yaml(path)
    load_listed_plugins(values, str(path))
    return values


def check_rule_names(names: Iterable[str], location: str) -> None:
    """Check that all rules of the given names exist.

    Raises:
        SettingsError: a name is unknown; the message suggests the closest name.
    """
    for name in names:
        _rule(name, location)


def settings_template(settings: CleaningSettings) -> str:
    """Return a YAML settings file with all rules and settings; unused rules are comments."""
    lines = [f"languages: [{', '.join(map(repr, settings.languages))}]", "rules:"]
    names = [*settings.rules, *(name for name in RULES if name not in settings.rules)]
    for name in names:
        rule_type = RULES[name]
        comment = "" if name in settings.rules else "# "
        values = settings.rules.get(name) or rule_type.settings_type()
        lines.append(f"  {comment}{name}:  # {rule_type.summary}")
        for key, field in rule_type.settings_type.model_fields.items():
            value = json.dumps(getattr(values, key), ensure_ascii=False)  # JSON is YAML
            lines.append(f"  {comment}  {key}: {value}  # {field.description}")
    return "\n".join(lines) + "\n"


def _rule(name: str, location: str) -> type[AnyRule]:
    try:
        return RULES.find(name)
    except SettingsError as error:
        raise SettingsError(f"{location}: {error}") from None


def _check_order(rules: Mapping[str, StrictModel], location: str) -> None:
    scored_rules = [name for name in rules if issubclass(RULES[name], ScoredRule)]
    if scored_rules and scored_rules != list(rules)[-1:]:
        raise SettingsError(
            f"{location}: {scored_rules[0]!r} must be the last rule: it is by far the slowest"
        )

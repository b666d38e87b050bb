"""Edit JSON files."""

import json
from contextlib import contextmanager


@contextmanager
def edited(path):
    """Yield the value of a JSON file, which is written back afterwards."""
    value = json.loads(path.read_text(encoding="utf-8"))
    yield value
    path.write_text(json.dumps(value), encoding="utf-8")


def edit_json(path, **changes):
    """Update a JSON file; None removes a key."""
    with edited(path) as values:
        values |= changes
        for name in [name for name, value in changes.items() if value is None]:
            del values[name]


def set_value(path, *keys, value):
    """Set a value of nested tables of a JSON file."""
    with edited(path) as group:
        for key in keys[:-1]:
            group = group[key]
        group[keys[-1]] = value

"""The rules of cleaning; importing this package fills the registry in the default order, cheap rules
first.
"""

from uwaga.cleaning.rules import shape, content, duplicates, models  # noqa: I001 (the default order)

__all__ = ["content", "duplicates", "models", "shape"]

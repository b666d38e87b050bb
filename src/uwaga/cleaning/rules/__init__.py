"""The rules of cleaning; importing this package registers them in the default order, cheap ones first."""

from uwaga.cleaning.rules import shape, content, duplicates, models  # noqa: I001 (the default order)

__all__ = ["content", "duplicates", "models", "shape"]

"""The verbs ``serve`` and ``mcp``."""

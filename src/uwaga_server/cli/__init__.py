"""The commands ``uwaga serve`` and ``uwaga mcp``."""

"""The translation server: HTTP dialects over one service, which is independent of HTTP."""

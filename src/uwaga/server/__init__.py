"""The translation server: HTTP dialects over one service, which knows nothing of HTTP."""

"""The translation server: several HTTP APIs (dialects) on top of a translation service."""

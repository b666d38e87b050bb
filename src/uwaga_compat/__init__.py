"""Interfaces of other libraries, implemented with uwaga's models."""

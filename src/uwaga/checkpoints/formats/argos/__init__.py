"""Argos Translate's packages."""

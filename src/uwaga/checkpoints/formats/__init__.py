"""Formats of model folders, a package for each."""

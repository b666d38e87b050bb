"""Readers and writers of model formats, one package per format."""

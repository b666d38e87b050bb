"""Conversion of models: to int8, to other formats, with merged adapters, and vocabulary shortlists."""

"""Conversion of models to int8, int4 and other formats, merging of adapters, and vocabulary shortlists."""

"""Subword tokenisers, normalisation and the surface forms that training may show."""

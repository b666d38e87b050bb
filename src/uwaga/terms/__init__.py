"""Glossaries: terms, their occurrences in texts and their use in translations."""

from uwaga.terms.files import Term
from uwaga.terms.glossary import Glossary, Match

__all__ = ["Glossary", "Match", "Term"]

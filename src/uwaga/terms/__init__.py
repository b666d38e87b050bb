"""Glossaries: terms, how they are found in texts, and how translations use them."""

from uwaga.terms.files import Term
from uwaga.terms.glossary import Glossary, Match

__all__ = ["Glossary", "Match", "Term"]

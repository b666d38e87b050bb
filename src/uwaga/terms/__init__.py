"""Glossaries: terms, where texts contain them, and how translations are made to contain them."""

from uwaga.terms.files import Term
from uwaga.terms.glossary import Glossary, Match

__all__ = ["Glossary", "Match", "Term"]

"""Glossaries: what terms of a text are to become, and how a translation is made to hold them."""

from uwaga.terms.glossary import Glossary, Match
from uwaga.terms.term import Term

__all__ = ["Glossary", "Match", "Term"]

"""Glossaries: what terms of a text are to become, and how a translation is made to hold them."""

from uwaga.terms.files import Term
from uwaga.terms.glossary import Glossary, Match

__all__ = ["Glossary", "Match", "Term"]

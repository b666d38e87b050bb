"""Vocabulary shortlists: made from a model's attention, tried, stored."""

from uwaga.conversion.shortlists.build import Counted, count_shortlist
from uwaga.conversion.shortlists.corpus import Corpus, read_corpus
from uwaga.conversion.shortlists.trial import TimedTranslations, Trial, try_shortlist, with_shortlist

__all__ = [
    "Corpus",
    "Counted",
    "TimedTranslations",
    "Trial",
    "count_shortlist",
    "read_corpus",
    "try_shortlist",
    "with_shortlist",
]

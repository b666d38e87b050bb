"""Cleaning of parallel corpora by rules, in memory that does not depend on the number of pairs."""

from uwaga_corpora.cleaning.clean import clean
from uwaga_corpora.cleaning.report import CleaningReport
from uwaga_corpora.cleaning.settings import CleaningSettings

__all__ = ["CleaningReport", "CleaningSettings", "clean"]

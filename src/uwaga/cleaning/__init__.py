"""Cleaning of parallel corpora by rules, in little memory for any number of pairs."""

from uwaga.cleaning.clean import clean
from uwaga.cleaning.report import CleaningReport
from uwaga.cleaning.settings import CleaningSettings

__all__ = ["CleaningReport", "CleaningSettings", "clean"]

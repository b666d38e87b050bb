"""Cleaning of parallel corpora: rules, each with its count, over any number of pairs in little memory."""

from uwaga.cleaning.clean import clean
from uwaga.cleaning.report import CleaningReport
from uwaga.cleaning.settings import CleaningSettings

__all__ = ["CleaningReport", "CleaningSettings", "clean"]

"""Clean parallel corpora by rules, in memory that does not depend on the number of pairs."""

from uwaga.cleaning.clean import clean
from uwaga.cleaning.report import CleaningReport
from uwaga.cleaning.settings import CleaningSettings

__all__ = ["CleaningReport", "CleaningSettings", "clean"]

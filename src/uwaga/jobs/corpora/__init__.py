"""Synthetic parallel text: a teacher's targets for a student, and sources for text that has none.

Jobs over corpora of any size, written in shards, which go on where they were stopped.
"""

from uwaga.jobs.corpora.backtranslation import Backtranslation
from uwaga.jobs.corpora.distillation import CHOICES, Choose, Distillation
from uwaga.jobs.corpora.job import Job, JobProgress, check_joined, join_shards, run_job
from uwaga.jobs.corpora.lines import JobInput, corpus_input, text_input
from uwaga.jobs.corpora.manifest import Manifest, ShardRecord, model_identity

__all__ = [
    "CHOICES",
    "Backtranslation",
    "Choose",
    "Distillation",
    "Job",
    "JobInput",
    "JobProgress",
    "Manifest",
    "ShardRecord",
    "check_joined",
    "corpus_input",
    "join_shards",
    "model_identity",
    "run_job",
    "text_input",
]

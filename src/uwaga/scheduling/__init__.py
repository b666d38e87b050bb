"""Sharing of a model by many callers: token budgets, fair queues, continuous batches."""

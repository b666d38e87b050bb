"""Sharing of a model by many callers, with token budgets, fair queues and continuous batches."""

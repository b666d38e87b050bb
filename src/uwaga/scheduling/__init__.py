"""Many callers that share one model: token budgets, fair queues, continuous batches."""

"""Layers of the torch models: attention and its scores, positions, feed-forward networks, recurrence."""

"""Building blocks: scores, attention, positions, feed-forward (torch)."""

"""Training: loss, schedules, the loop, checkpoints, validation (torch)."""

"""Training of models with torch: losses, schedules, the training loop, checkpoints and validation."""

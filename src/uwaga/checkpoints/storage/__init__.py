"""Storage of tensors and settings, independent of the model format."""

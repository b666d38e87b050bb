"""Files of tensors and of settings, independent of the model format."""

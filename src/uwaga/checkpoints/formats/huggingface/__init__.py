"""Folders in Hugging Face's format, one module per family."""

"""Folders in Hugging Face's format, one file a family."""

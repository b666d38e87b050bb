"""Readers and writers of Hugging Face folders, one module per model family."""

"""Model folders: what is written, how it is checked, where a model's name leads."""

"""Models in other formats and number formats."""

"""Model files of all formats: reading, checking, describing and writing them."""

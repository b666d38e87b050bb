"""DeepL's API, versions 2 and 3, for existing clients of DeepL."""

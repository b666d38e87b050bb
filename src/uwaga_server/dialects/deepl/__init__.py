"""DeepL's API, versions 2 and 3, for its existing clients."""

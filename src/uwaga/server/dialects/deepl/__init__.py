"""DeepL's API, versions 2 and 3, for clients that speak to it already."""

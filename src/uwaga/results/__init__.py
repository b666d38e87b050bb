"""The results of a translation and how they are shown: text, confidence, alignment, attention, HTML."""

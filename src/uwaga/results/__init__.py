"""The results of translations (text, confidence, alignment and attention) and their views in HTML."""

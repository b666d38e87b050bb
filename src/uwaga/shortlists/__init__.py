"""Vocabulary shortlists: made from a model's attention, tried, stored."""

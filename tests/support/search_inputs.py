"""Sentences of a search from lists of token ids."""

from uwaga.search import SearchInput


def inputs(sources, prefixes=None, phrases=None, drafts=None):
    """Return the sentences of a search; a prefix, phrases and a draft for each, or none for all."""
    if not sources:
        return []
    missing = [None] * len(sources)
    columns = (
        sources,
        missing if prefixes is None else prefixes,
        phrases or missing,
        drafts or missing,
    )
    return [
        SearchInput(ids, prefix or (), sentence_phrases, draft)
        for ids, prefix, sentence_phrases, draft in zip(*columns, strict=True)
    ]

"""Construction of the sentences of a search from lists of token ids."""

from uwaga.search import SearchInput


def inputs(sources, prefixes=None, phrases=None, drafts=None, datastores=None):
    """Return the sentences of a search, with their prefixes, phrases, drafts and datastores if given."""
    if not sources:
        return []
    missing = [None] * len(sources)
    columns = (
        sources,
        missing if prefixes is None else prefixes,
        phrases or missing,
        drafts or missing,
        datastores or missing,
    )
    return [
        SearchInput(ids, prefix or (), sentence_phrases, draft, datastore=datastore)
        for ids, prefix, sentence_phrases, draft, datastore in zip(*columns, strict=True)
    ]

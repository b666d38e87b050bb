"""Word alignment: a statistical aligner for corpora, and alignment by the attention of a model."""

from uwaga.alignment.aligner import WordAligner, align_corpus, corpus_lexicon, grow_diagonal

__all__ = ["WordAligner", "align_corpus", "corpus_lexicon", "grow_diagonal"]

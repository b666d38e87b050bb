"""Word alignment of a parallel corpus: a statistical aligner, and links read, written and made symmetric."""

from uwaga.alignment.aligner import WordAligner, align_corpus, corpus_lexicon, grow_diagonal

__all__ = ["WordAligner", "align_corpus", "corpus_lexicon", "grow_diagonal"]

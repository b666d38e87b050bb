"""Common texts and tiny models for tests of pretrained tokenisers."""

import io
import json

from sentencepiece import SentencePieceTrainer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SUBJECTS = [
    "the dog", "a cat", "my brother", "The old man", "nobody", "Frau Müller", "der Hund", "die Katze",
    "ein Mann",
]  # fmt: skip
VERBS = ["sees", "hears", "does not like", "was buying", "isn't", "sieht", "hört", "kauft"]
OBJECTS = [
    "the station", "3,000 cars", "a house on the hill", "Coffee", "München", "the naïve café", "den Bahnhof",
]  # fmt: skip
ENDINGS = [".", "!", "?", ",", "again;", "(maybe)...", ":", "-", "now"]
LINES = [
    f"{subject} {verb} {noun}{ENDINGS[(column * 7 + row) % len(ENDINGS)]}"
    for row, subject in enumerate(SUBJECTS)
    for column, (verb, noun) in enumerate((verb, noun) for verb in VERBS for noun in OBJECTS)
] + ["日本語 の テキスト", "你好 世界", "emoji 🚗 and 🙂", "ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"]

PLAIN_TEXTS = [
    "the dog sees the cat", "Hi", "The Old Man isn't at the station, is he?",
    "Where is München? It was 3,000 km .", "🚗 car 🙂🏳️‍🌈", "你好 world 日本語のテキスト", "...", "</",
    "<<x>> [y] {z}", "it " * 600 + "end", "Donaudampfschifffahrtsgesellschaft" * 40, "e\u0301 and é",
    "Привет, мир. שלום",
]  # fmt: skip
ODD_TEXTS = [
    "", " ", "  two  spaces", "a\tb\nc\r\nd", "\x00\x07 x", "a\u3000b\xa0c\u200bd", "ﬁ ① ½ Ⅳ", "\u200d\ufeff",
]  # fmt: skip


def sentencepiece(kind="unigram", size=300, **settings):
    """Train a SentencePiece model on the lines, and return it."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, model_type=kind, vocab_size=size,
        character_coverage=0.995, hard_vocab_limit=False, minloglevel=2, num_threads=1,
        **{"normalization_rule_name": "nmt_nfkc", **settings},
    )  # fmt: skip
    return model.getvalue()


def byte_level(folder, special, size=400):
    """Train ``vocab.json`` and ``merges.txt`` on the lines, and return the number of pieces."""
    folder.mkdir(exist_ok=True)
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[AddedToken(token, special=True) for token in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(LINES, trainer)
    model.model.save(str(folder))
    return model.get_vocab_size()


def word_piece(folder, size=300, lowercase=True):
    """Train ``vocab.txt`` on the lines, and return the number of pieces."""
    from tokenizers import BertWordPieceTokenizer

    folder.mkdir(exist_ok=True)
    model = BertWordPieceTokenizer(lowercase=lowercase)
    model.train_from_iterator(LINES, vocab_size=size, min_frequency=1, show_progress=False)
    model.save_model(str(folder))
    return model.get_vocab_size()


def write_json(path, values):
    path.write_text(json.dumps(values), encoding="utf-8")

"""Training of subword models."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

from sentencepiece import SentencePieceTrainer

from uwaga.errors import DataError, SettingsError
from uwaga.files.atomic import write_file
from uwaga.settings import TextSettings
from uwaga.tokenizers.sentencepiece import MARK
from uwaga.tokenizers.tokeniser import Tokeniser

SEED = 1
MAX_LINE_BYTES = 1 << 20  # bytes
THREADS = 16  # affects the result: sums of unigram expectations are formed per thread


class _TrainingLines:
    """The training lines for SentencePiece.

    SentencePiece hides the exceptions of an iterator, so the original exception is stored in ``failure``. If
    there are more than ``limit`` lines, they are sampled (algorithm R of Vitter 1985), because
    SentencePiece's sampling gives a different result in every process.
    """

    def __init__(self, lines: Iterable[str], limit: int) -> None:
        self._lines, self._limit = lines, limit
        self.count = 0
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        sampled_lines, random = deque[str](), Random(SEED)
        try:
            for line_number, line in enumerate(self._lines, start=1):
                clean = line.replace(MARK, " ").replace("\0", " ").strip()
                if not clean:
                    continue
                try:
                    clean.encode("utf-8")
                except UnicodeEncodeError:
                    raise DataError(
                        f"line {line_number} of the tokeniser's training text contains a lone surrogate, "
                        "which is not valid Unicode"
                    ) from None
                self.count += 1
                if len(sampled_lines) < self._limit:
                    sampled_lines.append(clean)
                elif (index := random.randrange(self.count)) < self._limit:
                    sampled_lines[index] = clean
            while sampled_lines:
                yield sampled_lines.popleft()  # SentencePiece has its own copy
        except BaseException as error:
            self.failure = error


def train_tokeniser(
    lines: Iterable[str], settings: TextSettings, prefix: Path, tags: Sequence[str] = ()
) -> Tokeniser:
    """Train a subword model on lines of text and write it to ``prefix`` + ``.spm``.

    At most ``settings.lines`` lines are kept in memory. The ids are ``<pad>`` 0, ``<unk>`` 1, ``<s>`` 2 and
    ``</s>`` 3, then the ``tags``, which are recognised only at the beginning of a text. The same lines,
    settings and tags give the same file.

    Raises:
        DataError: there is no text.
        SettingsError: ``size`` is too large for the text, or too small for its characters.
    """
    path = prefix.with_name(prefix.name + ".spm")
    source = _TrainingLines(lines, settings.lines)
    model = io.BytesIO()

    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(source),
            model_writer=model,
            model_type=settings.kind,
            vocab_size=settings.size,
            character_coverage=settings.coverage,
            byte_fallback=settings.byte_fallback,
            split_digits=settings.split_digits,
            control_symbols=list(tags),
            normalization_rule_name=settings.normalisation,
            remove_extra_whitespaces=False,
            add_dummy_prefix=True,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        if source.failure is None:
            raise _training_error(error, settings, source.count) from error
    if source.failure is not None:
        raise source.failure
    tokeniser = Tokeniser.from_bytes(model.getvalue(), str(path))
    assert set(tags) <= set(tokeniser.tags)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, tokeniser.model_bytes)
    return tokeniser


def _training_error(error: RuntimeError, settings: TextSettings, count: int) -> Exception:
    message = " ".join(str(error).split())
    if not count:
        return DataError("there is no text to train the tokeniser on; is the corpus empty?")
    if match := re.search(r"set it to a value <= (\d+)", message):
        return SettingsError(
            f"text.size: {settings.size} is more than the training text supports; the largest possible "
            f"size is {match[1]}"
        )
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return SettingsError(
            f"text.size: {settings.size} is too small for the characters of the training text; the smallest "
            f"possible size is {match[1]} (or lower text.coverage)"
        )
    return SettingsError(f"the tokeniser cannot be trained with these settings: {message}")

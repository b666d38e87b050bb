"""The path of texts: taken apart, searched, put together, looked over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, get_args

from uwaga.checkpoints.usual import UsualScore
from uwaga.contracts import Decoder, Translation
from uwaga.decoding import SearchOptions
from uwaga.decoding.checks import check_one_of
from uwaga.errors import DataError
from uwaga.text.subwords import Subwords
from uwaga.translator.guards import warnings_of
from uwaga.translator.joining import COPIED, assemble, sentence_text
from uwaga.translator.nbest import search_texts
from uwaga.translator.segmentation import Segmenter, Split, prefix_ids

OnError = Literal["raise", "return", "copy"]
"""What happens to a text that cannot be translated: an error for all; one in its place; the text itself."""


@dataclass(frozen=True)
class Pipeline:
    """What all texts of a call have in common; ``usual`` are the model's own figures, if it has any."""

    decoder: Decoder
    segmenter: Segmenter
    target: Subwords
    options: SearchOptions
    split: Split
    usual: UsualScore | None = None

    def run(
        self,
        texts: Sequence[str],
        prefix: str | Sequence[str] | None,
        names: Sequence[str],
        on_error: OnError = "raise",
    ) -> list[Translation]:
        """Translate texts, called ``names`` in messages; a text that fails does not hold up the others.

        Raises:
            DataError: with ``raise``, of the first text that cannot be translated.
            SettingsError: the options do not fit the model, the number of prefixes not the texts.
        """
        check_one_of("on_error", on_error, get_args(OnError))
        try:
            return self._translate(texts, prefix, names)
        except DataError as error:
            if on_error == "raise":
                raise
            if len(texts) == 1:
                copied = texts[0] if on_error == "copy" and isinstance(texts[0], str) else ""
                return [Translation(copied, 0.0, (), (), error=error)]
        found = []
        for half in (slice(0, len(texts) // 2), slice(len(texts) // 2, None)):
            own = prefix if prefix is None or isinstance(prefix, str) else prefix[half]
            found += self.run(texts[half], own, names[half], on_error)
        return found

    def _translate(
        self, texts: Sequence[str], prefix: str | Sequence[str] | None, names: Sequence[str]
    ) -> list[Translation]:
        passages = self.segmenter.cut_all(texts, self.split, names)
        prefixes = prefix_ids(passages, prefix, self.target)
        flat = [tokens for each in prefixes for tokens in each]
        sentences = [sentence for passage in passages for sentence in passage.sentences]
        copied = [one.copy is not None and not tokens for one, tokens in zip(sentences, flat, strict=True)]
        searched = [at for at, is_copied in enumerate(copied) if not is_copied]
        lists = iter(
            search_texts(
                self.decoder,
                [sentences[at].ids for at in searched],
                self.options,
                [flat[at] for at in searched],
                lambda tokens: sentence_text(tokens, self.target),
            )
        )
        found = iter([[COPIED] if is_copied else next(lists) for is_copied in copied])
        made = []
        for passage in passages:
            own = list(islice(found, len(passage.sentences)))
            one = assemble(passage, own, self.options.nbest, self.segmenter.source, self.target)
            best = [nbest[0] for nbest in own]
            doubts = warnings_of([sentence.ids for sentence in passage.sentences], best, self.usual)
            made.append(replace(one, warnings=(*one.warnings, *doubts)) if doubts else one)
        return made

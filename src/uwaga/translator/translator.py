"""Load a model and translate with it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from uwaga.checkpoints.languages import LanguagePair, Languages
from uwaga.checkpoints.usual import UsualScore
from uwaga.decoder import Decoder
from uwaga.errors import DataError
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.settings import AlignmentHead
from uwaga.tokenizers.options import TextOptions
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.detected import known_source
from uwaga.translator.forced_decoding import no_attention
from uwaga.translator.known_targets import KnownTargets
from uwaga.translator.marked import (
    LinesOptions,
    streamed_whole,
    taken_apart,
    translate_chunks,
    translate_given,
)
from uwaga.translator.pipeline import OnError, Pipeline
from uwaga.translator.pivot import PivotTranslator
from uwaga.translator.recording import led_translation
from uwaga.translator.scoring import Scorer, step_scorer
from uwaga.translator.segmentation import Segmenter, Split, listed, listed_prefixes
from uwaga.translator.summary import summary, whence
from uwaga.translator.text_markup import TextMarkup

if TYPE_CHECKING:
    from uwaga.terms.apply import GivenGlossary, GlossaryMode, TermFinder


class Translator(KnownTargets):
    """A model with its tokenisers, ready to translate.

    It holds no state between calls, so that threads may share it. What a text translates to does not
    depend on the texts it comes with: its tokens are the same, its scores agree to 1e-5.

    Args:
        decoder: the model as search sees it.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
        decoding: how to translate unless a call says otherwise.
        languages: codes of source and target.
        scorer: how to score known targets; step by step with ``decoder`` where none is given.
        text: how the model wants its texts.
        known: the languages that calls may choose from; None for a model of the one pair.
        usual: what its scores usually are, where that has been measured.
        alignment_head: whose attention aligns words; None for the mean of the last layer but one.
    """

    def __init__(
        self,
        decoder: Decoder,
        source: Subwords,
        target: Subwords,
        decoding: SearchOptions | None = None,
        languages: tuple[str, str] = ("src", "tgt"),
        scorer: Scorer | None = None,
        text: TextOptions | None = None,
        known: Languages | None = None,
        usual: UsualScore | None = None,
        alignment_head: AlignmentHead | None = None,
    ) -> None:
        self.decoder = decoder
        self.usual = usual
        self.alignment_head = alignment_head
        self.source = source
        self.target = target
        self.decoding = decoding or SearchOptions()
        self.text = text or TextOptions()
        self._known = known or Languages(source, target, languages)
        self.languages = LanguagePair(*languages, *self._known.pairs)
        self._scorer = scorer or step_scorer(decoder)
        self._segmenter = Segmenter(source, decoder.max_source, languages, self.text)
        self.terms: TermFinder | None = None  # of with_glossary

    @classmethod
    def load(
        cls,
        name: str | Path | Sequence[str | Path] | None = None,
        device: str = "auto",
        dtype: str = "auto",
        threads: int = 0,
        engine: str = "auto",
        source_language: str | None = None,
        target_language: str | None = None,
        shortlist: str | Path | None = None,
        memory: str = "fast",
        adapter: str | Path | None = None,
    ) -> Translator:
        """Load a model, or several that translate together.

        Args:
            name: a model folder, a Hugging Face name (``owner/model``), or None for the bundled model.
                Several are an ensemble: their probabilities are averaged at every step. They must share
                their tokenisers; languages and decoding settings are the first one's.
            device: ``auto`` (a GPU where there is one), ``cpu``, ``cuda`` or ``cuda:N``.
            dtype: what to compute in: ``float32``, ``float16``, ``bfloat16`` or ``int8``. ``auto`` is what
                an int8 folder holds and float32 for all others. float16 is torch's alone, int8 the native
                engine's.
            threads: CPU threads; 0 is all cores that the process may use.
            engine: ``native``, in C++ on the CPU, for Transformers; ``torch``, which runs every model on
                every device; ``auto`` is native wherever it can be. The native engine gives the same bits
                in any batch and with any number of threads; torch the same tokens, in float32.
            source_language: code of the language to translate from unless a call says otherwise, as the model
                calls it (``en_XX``, ``eng_Latn``); None where it states or needs none, or each call chooses.
            target_language: code of the language to translate to, likewise.
            shortlist: a file that ``uwaga shortlist`` has made for this model, or Marian's: each sentence
                becomes only what the list of its own tokens lets it, which is faster. None is the one beside
                a model of Marian's, ``"none"`` not even that. The native engine's alone.
            memory: ``fast`` copies the weights to memory of the process's own, on pages of 2 MB where the
                system has them. ``shared`` leaves those of an int8 folder in their file, mapped, so that
                processes that use one model share them; nobody may cut it short or write to it meanwhile.
            adapter: the folder of a low-rank adapter, merged into the model; it names one itself.

        Raises:
            ModelError: there is no such model, or it or the shortlist is incomplete or damaged, or the
                shortlist is another model's.
            SettingsError: an impossible device, dtype, memory or number of threads, models of different
                tokenisers, or a language that the model lacks.
            MissingExtraError: the model needs torch, which is not installed.
        """
        from uwaga.translator.ensembles import load_named
        from uwaga.translator.loading import LoadOptions

        languages = source_language, target_language
        wanted = LoadOptions(device, dtype, threads, engine, *languages, shortlist, memory, adapter)
        return cls(*load_named(name, wanted))

    def __repr__(self) -> str:
        return f"Translator({whence(self._known.where, self.languages)}, {summary(self.decoder)})"

    def between(self, source: str | None = None, target: str | None = None) -> Translator:
        """The translator from one language to another, with the same model in memory.

        Args:
            source: code of the language to translate from; None is as it was chosen when the model was
                loaded, or as the model states it.
            target: code of the language to translate to, likewise.

        Raises:
            SettingsError: the model lacks the language, or needs one that nobody has chosen; lists those it
                has.
        """
        if source is None and target is None and not self._known.needs():
            return self
        way = self._known.direction(source, target)
        start = self.decoding.start if way.start is None else way.start
        return Translator(
            self.decoder,
            way.source,
            way.target,
            replace(self.decoding, first=way.first, start=start),
            way.languages,
            self._scorer,
            self.text,
            self._known.chosen(source, target),
            self.usual,
            self.alignment_head,
        )

    @staticmethod
    def pivot(first: Translator, second: Translator, *more: Translator) -> PivotTranslator:
        """One translator of several, which texts go through in turn: ``pt`` to ``en``, then ``en`` to ``es``.

        Raises:
            SettingsError: they do not follow each other, or need a language that nobody has chosen.
        """
        return PivotTranslator([first, second, *more])

    def with_decoder(self, decoder: Decoder, scorer: Scorer | None = None) -> Translator:
        """The same translator over another decoder of the same vocabularies; by default scored by steps."""
        made = copy.copy(self)
        made.decoder, made.usual, made._scorer = decoder, None, scorer or step_scorer(decoder)
        made._segmenter = replace(self._segmenter, limit=decoder.max_source)
        return made

    def shared(self) -> Translator:
        """The same translator, whose calls in threads share one batch; each gets what it gets alone."""
        from uwaga.scheduling.request import Request
        from uwaga.scheduling.sharing import SharedModels

        return self.searched_by(SharedModels().way(Request()))

    def searched_by(self, way: Callable[[Decoder], Decoder]) -> Translator:
        """The same translator, in whose searches the decoder that ``way`` gives stands for the model."""
        made = copy.copy(self)
        made.decoder = way(self.decoder)
        return made

    @overload
    def translate(
        self,
        text: str,
        *,
        source: str | None = ...,
        target: str | None = ...,
        prefix: str | Sequence[str] | None = ...,
        split: Split = ...,
        on_error: OnError = ...,
        **options: Any,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Iterable[str],
        *,
        source: str | None = ...,
        target: str | None = ...,
        prefix: str | Sequence[str] | None = ...,
        split: Split = ...,
        on_error: OnError = ...,
        **options: Any,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        prefix: str | Sequence[str] | None = None,
        split: Split = "auto",
        on_error: OnError = "raise",
        **options: Any,
    ) -> Translation | list[Translation]:
        """Translate a text, or several.

        A text's lines are translated apart and its line breaks kept; a line longer than the model can take
        is translated sentence by sentence, and a sentence that still is in parts, with a warning. A text
        without anything to read gives an empty translation; one without letters is copied.

        A model whose settings say ``do_sample`` samples, unless ``beam``, or ``sample`` False, is given.

        Args:
            text: one text, or any number of them: a list, a generator.
            source: code of the language to translate from, of a model that knows several, or ``auto``.
            target: code of the language to translate to; see :meth:`between`.
            prefix: what the target begins with, one for all texts or one each: that of its first sentence.
            split: ``auto``, ``sentences`` (translate every sentence apart) or ``never``.
            on_error: what happens where a text cannot be translated: ``raise``; ``return`` a translation
                without text whose ``error`` it is; ``copy`` the text, with the error too.
            **options: how to search, by name. What is missing or None is as the model's own settings say.

                - ``beam``: width of the beam, 1 for greedy; ``nbest``: how many translations of a text, at
                  most ``beam``; the others are its ``alternatives``.
                - ``length_penalty``: exponent of the length that scores are divided by.
                - ``min_length``, ``max_length``: fewest and most target tokens of a sentence.
                - ``no_repeat_ngram``: no n-gram of this size twice, 0 for off.
                - ``sample``: draw ``nbest`` at random, from the distribution at a ``temperature``, from the
                  ``top_k`` most probable tokens, or the fewest of at least the probability ``top_p``; the
                  ``seed`` and the text decide. With ``mbr`` of so many the one most like all is taken, by the
                  ``utility`` ``chrf`` or ``bleu``.
                - ``attention``: return it (target, source), or ``"all"``; ``entropy``: each token's;
                  ``alignment``: link the words of the text and its translation.
                - ``format``: ``html``, ``xml`` (``outline`` parts it), ``markdown``; ``ignore_tags``: kept;
                  ``placeholders``: kept, unless False, and more if regular expressions are listed.
                - ``glossary``, ``glossary_mode``: terms to hold to; see :meth:`with_glossary`.
                - Seldom needed, and told by :class:`uwaga.search.SearchOptions`: ``batch_tokens``,
                  ``length_formula``, ``early_stopping``, ``max_ratio``, ``max_extra``, ``force_end``,
                  ``score_forced``, ``renormalise``, ``unknown``, ``banned``, ``first``, ``start``.

        Returns:
            a translation for a text, a list of them, in order, for several.

        Raises:
            TextTooLongError: with ``never``, a text is longer than the model can take.
            SettingsError: an unknown or impossible option.
            DataError: a text is not valid Unicode.
        """
        given = text if isinstance(text, str) else listed(text)
        glossary, mode = options.pop("glossary", None), options.pop("glossary_mode", None)
        here = self.between(known_source(source, given, self.languages), target).with_glossary(glossary, mode)
        markup, search = taken_apart(options)
        return translate_given(here, given, here.options(**search), markup, prefix, split, on_error)

    def translate_named(
        self,
        texts: Sequence[str],
        names: Sequence[str],
        options: SearchOptions,
        *,
        prefix: str | Sequence[str] | None = None,
        split: Split = "auto",
        on_error: OnError = "raise",
    ) -> list[Translation]:
        """As :meth:`translate`, texts called ``names`` in messages, with options from :meth:`options`."""
        return self.between().pipeline(options, split).run(texts, prefix, names, on_error)

    @property
    def aligns(self) -> bool:
        """Whether it can tell which words of a translation mean which of its text."""
        return self.decoder.cross_attention is not None

    def with_glossary(
        self, glossary: GivenGlossary, mode: GlossaryMode | None = None, last: bool = True
    ) -> Translator:
        """The same translator, whose translations hold the terms of a glossary.

        Args:
            glossary: a mapping from source to target terms, a file (``.tsv``, ``.csv``, ``.tbx``), or a
                :class:`uwaga.terms.Glossary`; None changes nothing.
            mode: ``forced``, the default: a term of the source is in every translation; ``soft``: preferred.
            last: False where another model goes on: only terms that stay as they are count.

        Raises:
            DataError: a file cannot be read, terms contradict each other, or one cannot be spelt.
            SettingsError: it is no glossary, or there is no such mode.
        """
        if glossary is None:
            return self
        from uwaga.terms.apply import TermFinder
        from uwaga.terms.glossary import Glossary

        here = self.between()
        known = Glossary.of(glossary, here.languages)
        made = copy.copy(here)
        made.terms = TermFinder(known, here.target, here.decoder.vocabulary, mode or "forced", last)
        made._segmenter = replace(here._segmenter, whole=known.spans)
        return made

    def options(self, **options: Any) -> SearchOptions:
        """The model's own decoding settings with what a call asks for instead; see :meth:`translate`.

        Raises:
            SettingsError: an unknown name, or an impossible value.
        """
        return self.decoding.changed(options)

    def translate_lines(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | None = None,
        split: Split = "auto",
        chunk: int = 1024,
        first: int = 1,
        unit: str = "line",
        on_error: OnError = "raise",
        markup: TextMarkup | None = None,
    ) -> Iterator[Translation]:
        """Translate any number of lines, ``chunk`` of them at a time, in constant memory.

        Args:
            lines: texts without line breaks.
            options: from :meth:`options`.
            prefix: what every target begins with.
            split: as in :meth:`translate`.
            chunk: lines translated together.
            first: the number of the first line, for error messages.
            unit: what a line is called in them.
            on_error: as in :meth:`translate`.
            markup: how a line is read; as plain text, whose placeholders are kept, if None.

        Raises:
            TextTooLongError: names the line.
        """
        here = self.between()
        wanted = options or here.options()
        how = LinesOptions(wanted, markup or TextMarkup.of(), prefix, split, chunk, first, unit, on_error)
        yield from translate_chunks(here, lines, how)

    def stream(
        self,
        text: str,
        *,
        source: str | None = None,
        target: str | None = None,
        prefix: str | None = None,
        split: Split = "auto",
        placeholders: bool | Sequence[str] | None = None,
        **options: Any,
    ) -> Generator[str, None, bool]:
        """Translate a text and give out its translation piece by piece as it grows.

        Joined, the pieces are ``translate(text, beam=1, ...).text``; with ``sample``, that of the same seed.
        A text with placeholders, or with a glossary, comes in one piece. Returned is whether a limit cut it.

        Raises:
            TextTooLongError, SettingsError, DataError: as :meth:`translate`, before the first piece.
        """
        here = self.between(source, target)
        markup, wanted = TextMarkup.of(placeholders=placeholders), here.decoding.for_stream(options)
        return here.stream_line(text, wanted, prefix=prefix, split=split, name="the text", markup=markup)

    def stream_line(
        self,
        line: str,
        options: SearchOptions,
        *,
        prefix: str | None = None,
        split: Split = "auto",
        name: str = "the line",
        markup: TextMarkup | None = None,
    ) -> Generator[str, None, bool]:
        """As :meth:`stream`, with ``decoding.for_stream``'s options; ``name`` is for error messages."""
        options.check_streams()
        held = self.terms is not None
        if (whole := streamed_whole(self, line, options, markup, prefix, split, name, held)) is not None:
            return whole
        way = self.pipeline(options, split)
        [passage] = way.segmenter.cut_all([line], split, [name])
        return way.grow(passage, *listed_prefixes(prefix, 1))

    def doubts(self, line: str, split: Split = "auto") -> tuple[str, ...]:
        """What is strange about a text before it is translated, as ``warnings`` of its translation has it."""
        return self.between()._segmenter.cut(line, split, "the text").warnings

    def attend(self, source: str, target: str | None = None) -> Translation:
        """Where the model looks: a translation with ``attention`` and, unless of an ensemble, ``attentions``.

        Args:
            source: the text to translate.
            target: a translation to lead the model along, token by token (neither side is split into
                sentences then); its own best one if None.

        Raises:
            SettingsError: the model has no attention.
            TextTooLongError: a side is longer than the model can take.
            DataError: there is nothing to read in ``source``, or a text is not valid Unicode.
        """
        here = self.between()
        if not here._segmenter.ids(source):
            raise DataError("there is nothing to read in the text, so nothing to attend to")
        if target is None:
            every = here.decoder.attentions is not None
            best = here.translate(source, attention="all" if every else True, sample=False)
            if best.attention is None:
                raise no_attention()
            return best
        [ids], [wanted] = here.pair_ids([(source, target)], 1)
        sides = here.source, here.target
        return led_translation(here.decoder, source, ids, wanted, here.decoding.start, sides)

    def pipeline(self, options: SearchOptions, split: Split) -> Pipeline:
        """The path that the texts of a call take through this model."""
        own = self.usual, self.alignment_head
        return Pipeline(self.decoder, self._segmenter, self.target, options, split, *own, self.terms)

"""The translator, the main class of the library: it translates texts with one or more models."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, replace
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack, overload

from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, LanguagePair, resolve_languages
from uwaga.decoder import Decoder
from uwaga.errors import DataError, SettingsError
from uwaga.languages.codes import same_language
from uwaga.languages.detection import AUTO
from uwaga.markup import Inline, plain_text
from uwaga.markup.placeholders import resolve_placeholders
from uwaga.results.translation import Translation
from uwaga.scheduling.call_context import Progress
from uwaga.search import SearchOptions
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.memories import MemoryArgument, Pair, TextContext, confirm_pair, memory_name
from uwaga.translator.model import Model
from uwaga.translator.pipeline import translate_inlines, translate_requests
from uwaga.translator.plan import Plan, make_plan, search_options
from uwaga.translator.request import Request, Split, build_requests
from uwaga.translator.text import InlineText

if TYPE_CHECKING:
    from uwaga.alignment.words import WordKind
    from uwaga.results.translation import WordAlignment
    from uwaga.translator.call_options import (
        CardOptions,
        LoadFields,
        RequestFields,
        SearchFields,
        TranslateOptions,
    )
    from uwaga.translator.score import Score, Scorer
    from uwaga.translator.text import TokenPair, TranslatedInline

WINDOW = 1024
"""Number of requests that are translated together, enough to form batches of similar lengths."""
PROGRESS_WINDOW = 100
"""Number of requests that are translated together if progress is reported."""


class Translator:
    """A chain of one or more models that translates texts.

    A text is translated by each model in turn, for example from Portuguese to English and then to Spanish.
    It is split into sentences once, each sentence goes through all models, and the last translations are
    joined.

    A translator has no state between calls: threads may share it. The translation of a text does not depend
    on the other texts of a call: its tokens are the same, and its scores agree to 1e-5.

    Args:
        *models: one or more models. Each translates from the target language of the previous one.

    Raises:
        SettingsError: the languages of consecutive models differ, or a model needs a language that has not
            been chosen; choose it with :meth:`between`.
    """

    def __init__(self, *models: Model) -> None:
        if not models:
            raise SettingsError("a translator needs at least one model")
        self.models = models if len(models) == 1 else tuple(chain_model.between() for chain_model in models)
        for step_number, (model, next_model) in enumerate(pairwise(self.models), start=1):
            target, source = model.languages[1], next_model.languages[0]
            if (
                target != UNSTATED_LANGUAGES[1]
                and source != UNSTATED_LANGUAGES[0]
                and not same_language(target, source)
            ):
                raise SettingsError(
                    f"the models do not form a chain: model {step_number} translates to {target}, but the "
                    f"next model translates from {source}"
                )
        if len(models) == 1:
            self.languages = models[0].language_pair
        else:
            source, target = self.models[0].languages[0], self.models[-1].languages[1]
            self.languages = LanguagePair(source, target, (source,), (target,))

    @classmethod
    def load(
        cls, name: str | Path | Sequence[str | Path] | None = None, **options: Unpack[LoadFields]
    ) -> Translator:
        """Load a model, or several models as an ensemble.

        Args:
            name: a model folder, a Hugging Face name (``owner/model``), or None for the bundled model.
                Several names load an ensemble, whose probabilities are averaged at every step. Its members
                must share their tokenisers; languages and search options are those of the first member.
            **options: fields of :class:`uwaga.settings.LoadOptions` by name: ``device``, ``dtype``,
                ``threads``, ``engine``, ``source``, ``target``, ``shortlist``, ``memory``, ``adapter``,
                ``draft``.

        Raises:
            ModelError: the model does not exist, or the model or the shortlist is incomplete, damaged, or of
                the wrong kind.
            SettingsError: an option is invalid, the tokenisers of the models differ, or a model does not
                support a language.
            MissingExtraError: the model needs torch, which is not installed.
        """
        from uwaga.settings.load_options import LoadOptions
        from uwaga.translator.loading import load_named

        return cls(load_named(name, LoadOptions.from_mapping(options)))

    def __repr__(self) -> str:
        return f"Translator({'; '.join(map(repr, self.models))})"

    @property
    def model(self) -> Model:
        """The only model of the translator.

        Raises:
            SettingsError: the translator is a chain of several models.
        """
        if len(self.models) > 1:
            raise SettingsError(
                f"this operation needs a single model, but the translator is a chain of {len(self.models)} "
                "models: create a Translator from one of its `models`"
            )
        return self.models[0]

    @property
    def decoder(self) -> Decoder:
        """The decoder of the translator's single model."""
        return self.model.decoder

    @property
    def source(self) -> Subwords:
        """The source tokeniser of the first model."""
        return self.models[0].source

    @property
    def target(self) -> Subwords:
        """The target tokeniser of the last model."""
        return self.models[-1].target

    @property
    def decoding(self) -> SearchOptions:
        """The default search options of the last model."""
        return self.models[-1].decoding

    @property
    def aligns(self) -> bool:
        """True if every model has cross-attention, which can align words."""
        return all(model.aligns for model in self.models)

    @property
    def route(self) -> tuple[str, ...]:
        """Codes of the languages that a text goes through, from source to target."""
        return (self.languages[0], *(model.languages[1] for model in self.models))

    def then(self, *following: Translator) -> Translator:
        """Return a translator that chains the models of this translator and of the following translators.

        Raises:
            SettingsError: the languages of consecutive models differ, or a model needs a language that has
                not been chosen.
        """
        return Translator(*self.models, *(model for translator in following for model in translator.models))

    def between(self, source: str | None = None, target: str | None = None) -> Translator:
        """Return a translator for one of the model's language pairs, which shares its weights.

        Args:
            source: code of the language to translate from; None for the language chosen at loading or stated
                by the model.
            target: code of the language to translate to; None as for ``source``.

        Raises:
            SettingsError: the model does not support a language, or needs one that has not been chosen (the
                message lists the supported languages); or the languages of a chain of models differ.
        """
        if len(self.models) > 1:
            resolve_languages(self.languages, source, target, "these models together")
            return self
        model = self.model.between(source, target)
        return self if model is self.model else Translator(model)

    def with_decoder(self, decoder: Decoder, scorer: Scorer | None = None) -> Translator:
        """Return a copy with another decoder that has the same vocabularies.

        Args:
            decoder: the decoder that searches use.
            scorer: function that scores given targets; None to score them step by step with ``decoder``.
        """
        return Translator(self.model.with_decoder(decoder, scorer))

    def with_drafter(self, drafting: Translator) -> Translator:
        """Return a copy that uses the translations of a faster translator as drafts.

        Searches are greedy, and the results are the same as without drafts: the model of this translator
        checks several tokens of a draft in one pass. The ``draft`` of a translation gives the number of
        accepted tokens.

        Args:
            drafting: the faster translator, with a single model for the same languages.

        Raises:
            SettingsError: ``drafting`` translates between other languages, or one of the two translators is
                a chain of several models.
        """
        from uwaga.translator.drafters import make_drafter

        return Translator(self.model.with_drafter(make_drafter(self.model, drafting.model)))

    def shared(self) -> Translator:
        """Return a copy whose concurrent calls, in several threads, are decoded in one batch.

        The results of a call do not depend on other calls.
        """
        from uwaga.scheduling.batching_decoder import ModelBatches
        from uwaga.scheduling.call_context import CallContext

        return self.wrap_decoders(ModelBatches().decoder_for(CallContext()))

    def wrap_decoders(self, wrap: Callable[[Decoder], Decoder]) -> Translator:
        """Return a copy of the translator in which ``wrap`` is applied to the decoder of each model."""
        translator = copy(self)
        translator.models = tuple(model.wrap_decoders(wrap) for model in self.models)
        return translator

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is an Iterable[str] too; it comes first
        self, text: str, *, progress: Progress | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation: ...

    @overload
    def translate(
        self, text: Iterable[str], *, progress: Progress | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Iterable[str],
        *,
        progress: Progress | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Translation | list[Translation]:
        """Translate one text, or several texts.

        Each line of a text is translated separately, and line breaks are kept. A line longer than the model
        accepts is split into sentences; a sentence that is still too long is split further, with a warning. A
        blank text gives an empty translation; a text without letters is copied.

        A model with ``do_sample`` in its settings samples, unless ``beam`` or ``sample=False`` is given.

        Args:
            text: one text, or an iterable of any number of texts, such as a list or a generator.
            progress: function called every 100 texts with the number of completed texts and the total number.
            **options: the fields of a :class:`uwaga.translator.request.Request`: ``source``, ``target``,
                ``format``, ``prefix`` (for all texts, or one for each), ``glossary``, ``glossary_mode``,
                ``split``, ``placeholders``, ``ignore_tags``, ``outline``, ``on_error``, ``memory``,
                ``threshold``; and the search options by name. Values that are missing or None are taken from
                the model's settings.

                - ``beam``: beam size, 1 for greedy search; ``nbest``: number of translations of a text, at
                  most ``beam``; all but the best are its ``alternatives``.
                - ``length_penalty``: exponent of the length that scores are divided by.
                - ``min_length``, ``max_length``: minimum and maximum number of target tokens of a sentence.
                - ``no_repeat_ngram``: size of the n-grams that must not be repeated, 0 for off.
                - ``sample``: draw ``nbest`` translations at random, from the distribution at a
                  ``temperature``, limited to the ``top_k`` most probable tokens and to the smallest set of
                  tokens with at least the total probability ``top_p``; the ``seed`` and the text determine
                  the draws. With ``mbr`` that many samples are drawn, and the one most similar to all of
                  them, by the ``utility`` ``chrf`` or ``bleu``, is returned.
                - ``attention``: return the attention (target, source) or, with ``"all"``, all attention
                  matrices; ``entropy``: return the entropy at each token; ``alignment``: link the words of
                  the text and its translation.
                - Rarely needed, and described by :class:`uwaga.search.SearchOptions`: ``batch_tokens``,
                  ``length_formula``, ``early_stopping``, ``max_ratio``, ``max_extra``, ``force_end``,
                  ``score_forced``, ``renormalise``, ``unknown``, ``banned``, ``first``, ``start``.

                In a chain, search options apply to every model, except that ``nbest``, ``min_length``,
                ``max_length``, ``start``, ``first``, ``banned`` and ``prefix`` apply only to the last model.

        Returns:
            a translation for a text; for several texts, a list of translations in order. For a chain,
            ``steps`` has the translation by each model.

        Raises:
            TextTooLongError: with ``split="never"``, a text is longer than the model accepts.
            SettingsError: an option is unknown or has an invalid value.
            DataError: a text is not valid Unicode or does not match its format, or the glossary is damaged.
        """
        requests = build_requests(text, options)
        window = max(len(requests), 1) if progress is None else PROGRESS_WINDOW
        translations = []
        for translation in self.run(requests, window=window):
            translations.append(translation)
            if progress is not None and (
                len(translations) % PROGRESS_WINDOW == 0 or len(translations) == len(requests)
            ):
                progress(len(translations), len(requests))
        return translations[0] if isinstance(text, str) else translations

    def run(self, requests: Iterable[Request], window: int = WINDOW) -> Iterator[Translation]:
        """Translate requests in constant memory, and yield their translations in order.

        Args:
            requests: any number of requests. Requests of a window that differ only in their texts are
                translated together.
            window: number of requests in memory at a time.

        Raises:
            TextTooLongError, SettingsError, DataError: as in :meth:`translate`.
        """
        remaining_requests = iter(requests)
        plan: Plan | None = None
        while batch := list(islice(remaining_requests, window)):
            translations: dict[int, Translation] = {}
            for indices in _groups(batch):
                group = [batch[index] for index in indices]
                first_request = group[0]
                if (
                    plan is None
                    or first_request.shared != plan.request.shared
                    or first_request.source == AUTO
                ):
                    texts = [request.text for request in group]
                    plan = make_plan(self.models, self.languages, first_request, texts)
                translations |= zip(indices, translate_requests(plan, group), strict=True)
            for index in range(len(batch)):
                yield translations[index]

    def confirm(
        self,
        source: str,
        target: str,
        *,
        memory: MemoryArgument,
        context: TextContext | None = None,
        origin: str = "",
    ) -> None:
        """Add a confirmed translation to a translation memory, which later calls with this memory use.

        If a text has several translations in the same context, the one that was confirmed last is used.

        Args:
            source: a text.
            target: its translation.
            memory: the file of the memory, a :class:`uwaga_memory.Memory`, or any
                :class:`uwaga.translator.memories.LearningMemory`.
            context: the position of the text in its document.
            origin: where the translation comes from, such as the name of the document.

        Raises:
            DataError: a text is empty, too long or not valid Unicode, or the memory is damaged or cannot be
                written.
            SettingsError: the memory has other languages, or pairs cannot be added to it.
            MissingExtraError: the package of translation memories is not installed.
        """
        confirm_pair(memory, Pair(source, target, origin, *(context or TextContext())), self.languages)

    def retranslate(
        self,
        text: str,
        previous: str | Translation,
        *,
        bias: float = 0.0,
        mask: int = 0,
        **options: Unpack[RequestFields],
    ) -> Translation:
        """Translate a text that has grown, with the last translation as the draft.

        The beginning that has not changed is checked in few passes of the model. A translation that is shown
        while it grows flickers less if it is biased (``bias``) towards the shown text, and if its last words,
        which change most, are not shown (Arivazhagan et al. 2020): see
        :meth:`uwaga.Translation.without_last`.

        Args:
            text: the complete current text.
            previous: the complete translation of the text before it grew; empty at first.
            bias: at least 0 and less than 0.5; 0 gives the same translation as without a draft.
            mask: number of words at the end of ``previous`` that are not shown; the translation is not
                biased towards them.
            **options: as for :meth:`translate`, with greedy search.

        Raises:
            TextTooLongError, SettingsError, DataError: as in :meth:`translate`.
        """
        draft_options = {"beam": 1, "nbest": 1, **options, "draft": str(previous), "bias": bias, "mask": mask}
        [translation] = self.run(build_requests(text, draft_options))
        return translation

    def stream(self, text: str, **options: Unpack[TranslateOptions]) -> Generator[str, None, bool]:
        """Translate a text and yield its translation piece by piece as it grows.

        The joined pieces equal ``translate(text, beam=1, ...).text`` or, with ``sample``, the text sampled
        with the same seed. A text with a format, with placeholders or with a glossary is yielded in one
        piece.

        Args:
            text: one text.
            **options: as for :meth:`translate`; the search must return a single hypothesis.

        Returns:
            a generator of the pieces; it returns True if a length limit truncated the translation.

        Raises:
            TextTooLongError, SettingsError, DataError: as in :meth:`translate`, before the first piece.
        """
        [request] = build_requests(text, options)
        return self.run_stream(request)

    def run_stream(self, request: Request) -> Generator[str, None, bool]:
        """Translate a request and yield its translation as it grows; see :meth:`stream`.

        Raises:
            TextTooLongError, SettingsError, DataError: as in :meth:`translate`, before the first piece.
        """
        from uwaga.translator.stream import stream_request

        plan = make_plan(self.models, self.languages, request, [request.text], streaming=True)
        return stream_request(plan, request)

    def run_inlines(self, inlines: Sequence[Inline | InlineText], request: Request) -> list[TranslatedInline]:
        """Translate texts with tags together; each translation has every tag exactly once.

        Args:
            inlines: the texts, with their contexts if there is a translation memory; white space at their
                ends is kept.
            request: the options for all texts; the text of the request is ignored.

        Returns:
            the translations in order. A failed translation has the tags of its source and, unless
            ``on_error`` is ``copy``, no text.

        Raises:
            TextTooLongError, SettingsError, DataError: as in :meth:`translate`.
        """
        texts = [*map(InlineText.from_text, inlines)]
        plan = make_plan(self.models, self.languages, request, [plain_text(text.inline) for text in texts])
        return translate_inlines(plan, texts)

    def prepare(self, request: Request, streaming: bool = False) -> Request:
        """Check a request before its texts are known, and return it with its glossary read and a seed chosen.

        Args:
            request: the request, whose text is ignored and whose ``source`` is not ``auto``.
            streaming: whether the request is for :meth:`run_stream`.

        Raises:
            SettingsError: a field has an invalid value, or one that the models do not support.
            DataError: the glossary cannot be read, or has a term that the model's tokeniser cannot spell.
        """
        plan = make_plan(self.models, self.languages, request, (), streaming)
        search, last_stage = request.search, plan.stages[-1]
        if not isinstance(search, SearchOptions) and last_stage.options.sample:
            search = {**search, "seed": last_stage.options.seed}
        glossary = request.glossary if last_stage.terms is None else last_stage.terms.glossary
        return replace(request, search=search, glossary=glossary, memory=plan.memory)

    def translation_settings(self, request: Request) -> dict[str, Any]:
        """Return all settings that affect the translations of a request, as JSON-compatible values.

        A job can be resumed only with equal settings (:func:`uwaga.files.resume.check_same_job`).

        Args:
            request: the result of :meth:`prepare`.
        """
        *earlier_options, last_options = search_options(
            [model.decoding for model in self.models], request.search
        )
        search = {name: str(value) for name, value in asdict(last_options).items() if name != "batch_tokens"}
        if earlier_options:
            search["earlier"] = str(tuple(map(asdict, earlier_options)))
        placeholders = resolve_placeholders(request.placeholders)
        settings: dict[str, Any] = {
            "model": repr(self),
            "search": search,
            "placeholders": "none" if placeholders is None else placeholders.pattern.pattern,
            "split": request.split,
        }
        if request.glossary:
            from uwaga.terms import Glossary
            from uwaga.terms.apply import fingerprint

            assert isinstance(request.glossary, Glossary)
            settings["glossary"] = fingerprint(request.glossary, request.glossary_mode)
        if request.memory is not None:
            settings |= {"memory": memory_name(request.memory), "threshold": request.threshold}
        return settings

    def options(self, **search: Unpack[SearchFields]) -> SearchOptions:
        """Return the last model's search options with the given changes; see :meth:`translate`.

        Raises:
            SettingsError: an option is unknown or has an invalid value.
        """
        return search_options([model.decoding for model in self.models], search)[-1]

    def input_warnings(self, text: str, split: Split = "auto") -> tuple[str, ...]:
        """Return the warnings about a text that will be attached to its translation.

        Args:
            text: one text.
            split: as for :class:`uwaga.translator.request.Request`.
        """
        plan = make_plan(self.models, self.languages, Request(text, split=split), [text])
        first_stage = plan.stages[0]
        return tuple(map(first_stage.with_languages, first_stage.split_text(text, "the text").warnings))

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        source: str | None = None,
        target: str | None = None,
        batch_tokens: int = 4096,
        first: int = 1,
    ) -> list[Score]:
        """Return the score of each target given its source, by teacher forcing.

        Args:
            pairs: source and target texts. Neither is split; outer white space is ignored.
            source: code of the language to translate from, if the model supports several.
            target: code of the language to translate to; see :meth:`between`.
            batch_tokens: maximum number of tokens in a batch, counted on the longer side of each pair.
            first: the number of the first pair, for error messages.

        Raises:
            TextTooLongError: a side is longer than the model accepts; the message names the pair.
            DataError: a text is not valid Unicode.
            SettingsError: the translator is a chain of several models.
        """
        from uwaga.translator.score import as_score, score_in_batches

        model, pairs = self.model.between(source, target), list(pairs)
        ids = model.pair_ids(pairs, first)
        scores = score_in_batches(model.scores, ids, batch_tokens, model.decoding.start)
        rows = zip(pairs, ids, scores, strict=True)
        return [as_score(*row, model.source, model.target) for row in rows]

    def align(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        source: str | None = None,
        target: str | None = None,
        words: WordKind = "words",
        first: int = 1,
    ) -> list[WordAlignment]:
        """Align the words of given texts with the words of their translations, by forced decoding.

        Args:
            pairs: source and target texts. Neither is split.
            source: code of the language to translate from, as for :meth:`translate`.
            target: code of the language to translate to.
            words: the units of the links: ``words`` and punctuation marks, or strings between ``spaces``.
            first: the number of the first pair, for error messages.

        Raises:
            TextTooLongError: a side is longer than the model accepts; the message names the pair.
            DataError: a text is not valid Unicode.
            SettingsError: the model has no cross-attention, ``words`` is invalid, or the translator is a
                chain of several models.
        """
        from uwaga.translator.align import align_pairs

        model, pairs = self.model.between(source, target), list(pairs)
        ids = model.pair_ids(pairs, first)
        return align_pairs(model.decoder, model, pairs, ids, model.decoding.start, words)

    def pair_ids(self, pairs: Iterable[tuple[str, str]], first: int = 1) -> list[TokenPair]:
        """Return the tokens of both sides of each pair; see :meth:`uwaga.translator.model.Model.pair_ids`."""
        return self.model.pair_ids(pairs, first)

    def save_pretrained(self, folder: str | Path, **card: Unpack[CardOptions]) -> None:
        """Save the model and a model card to a folder that :meth:`load` can read.

        The files from which the model was loaded are copied atomically; load options are not saved. The card,
        ``README.md``, keeps the text of the model's own card and adds the front matter that the Hugging Face
        hub reads.

        Args:
            folder: the folder to create; a folder with files is never overwritten.
            **card: fields of :class:`uwaga.library.model_card.CardFields` by name: ``license``, ``datasets``,
                ``base_model``, ``tags``, ``metrics``. Missing fields are taken from the model's own card.

        Raises:
            ModelError: the folder is not empty or cannot be written; or the model, such as an ensemble or a
                CTranslate2 model, has no folder that can be copied.
            SettingsError: neither ``license`` nor the model's card names a licence; a field is unknown or has
                an invalid value; or the translator is a chain of several models.
        """
        self._save(Path(folder), Path(folder).resolve().name, card)

    def push_to_hub(
        self,
        name: str,
        private: bool = False,
        token: str | None = None,
        commit_message: str = "Upload a model of uwaga",
        **card: Unpack[CardOptions],
    ) -> str:
        """Upload the model to the Hugging Face hub, as :meth:`save_pretrained` saves it.

        A repository that does not exist is created; in an existing repository, files with the same names are
        replaced.

        Args:
            name: the name of the repository, ``owner/name``.
            private: whether a new repository is private.
            token: a token with write access; None for that of ``HF_TOKEN`` or, without it, of ``hf auth
                login``.
            commit_message: the message of the commit.
            **card: as for :meth:`save_pretrained`.

        Returns:
            the address of the repository.

        Raises:
            ModelError: the name is invalid, the hub refuses the upload or cannot be reached, or the model
                cannot be saved.
            SettingsError: as in :meth:`save_pretrained`.
            MissingExtraError: ``huggingface_hub`` is not installed.
        """
        from uwaga.library.publish import check_name, push

        check_name(name)
        with TemporaryDirectory(prefix="uwaga-") as temporary:
            self._save(Path(temporary) / "model", name, card)
            return push(Path(temporary) / "model", name, private, token, commit_message)

    def _save(self, folder: Path, name: str, card: CardOptions) -> None:
        from uwaga.library.model_card import CardFields
        from uwaga.library.publish import save_folder

        model, fields = self.model, CardFields.from_options(card)
        languages = model.all_languages.pairs
        save_folder(model.path, folder, name, fields, languages, model.decoder.max_source)

    def attend(self, source: str, target: str | None = None) -> Translation:
        """Return a translation with ``attention`` and, except for an ensemble, ``attentions``.

        Args:
            source: the text to translate.
            target: a translation that the decoder is forced to produce (then neither side is split into
                sentences); None for the model's best translation.

        Raises:
            SettingsError: the model has no attention, or the translator is a chain of several models.
            TextTooLongError: a side is longer than the model accepts.
            DataError: ``source`` has no tokens, or a text is not valid Unicode.
        """
        from uwaga.translator.attention import force_recorded
        from uwaga.translator.layers.assemble import join_sentences
        from uwaga.translator.score import no_attention_error
        from uwaga.translator.text import Passage, Sentence

        model = self.model.between()
        if not model.segmenter().ids(source):
            raise DataError("the text has no tokens to attend to: give a text with words")
        if target is None:
            has_attentions = model.decoder.attentions is not None
            best_translation = Translator(model).translate(
                source, attention="all" if has_attentions else True, sample=False
            )
            if best_translation.attention is None:
                raise no_attention_error()
            return best_translation
        [pair] = model.pair_ids([(source, target)])
        hypothesis = force_recorded(model.decoder, pair, model.decoding.start)
        sentence = Sentence(pair.source, span=(0, len(source)), hypotheses=[hypothesis])
        return join_sentences(Passage("", [sentence], text=source), model)


def _groups(requests: Sequence[Request]) -> list[list[int]]:
    """Group the indices of requests with the same values in shared fields, in order of first occurrence."""
    groups: list[tuple[tuple[object, ...], list[int]]] = []
    for index, request in enumerate(requests):
        shared_fields = request.shared
        for fields, group in groups:
            if fields == shared_fields:
                group.append(index)
                break
        else:
            groups.append((shared_fields, [index]))
    return [group for _, group in groups]

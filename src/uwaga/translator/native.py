"""From a model folder to the native engine, without torch where the folder allows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwaga.checkpoints.huggingface.config import CONTINUING, DECODER, family_of, read_mapping
from uwaga.checkpoints.huggingface.engine_folder import open_foreign
from uwaga.checkpoints.languages import in_languages, resolve_languages
from uwaga.checkpoints.uwaga.engine_folder import open_native
from uwaga.checkpoints.uwaga.int8 import continues_texts, is_quantised, read_quantised
from uwaga.checkpoints.uwaga.schema import CONFIG, FORMAT
from uwaga.contracts import Floats, Symbols
from uwaga.decoding import SearchOptions, from_settings
from uwaga.engine import NativeModel, Packed, Precision, pack
from uwaga.engine.layout import EngineSettings
from uwaga.errors import MissingExtraError, ModelError, SettingsError
from uwaga.settings import DecodingSettings
from uwaga.text.options import TextOptions
from uwaga.text.subwords import Subwords

if TYPE_CHECKING:
    from uwaga.models.base import Seq2Seq

EXACT = 127
"""Levels of the numbers in an int8 folder, which every processor is to read."""


@dataclass(frozen=True)
class Weights:
    """A folder understood for the engine; nothing is packed yet. ``read`` gives a stored tensor."""

    settings: EngineSettings
    symbols: Symbols
    source_size: int
    target_size: int
    read: Callable[[str], Floats]
    source: Subwords
    target: Subwords
    decoding: DecodingSettings | SearchOptions
    languages: tuple[str, str]
    where: str

    def packed(self, precision: Precision, keep: tuple[str, ...] = (), levels: int = EXACT) -> Packed:
        """The packed weights; see :func:`uwaga.engine.packing.pack`.

        Raises:
            ModelError: a weight is not finite; the message names the file.
        """
        try:
            return pack(self.settings, self.source_size, self.target_size, self.read, precision, keep, levels)
        except ModelError as error:
            raise ModelError(f"{self.where}: {error}") from None

    def model(self, precision: Precision, threads: int, packed: Packed | None = None) -> NativeModel:
        """The engine over these weights."""
        packed = packed or self.packed(precision)
        return NativeModel(self.settings, self.symbols, self.source_size, self.target_size, packed, threads)


@dataclass(frozen=True)
class Loaded:
    """The engine over a folder, with all that is needed to translate, or to continue texts."""

    model: NativeModel
    source: Subwords
    target: Subwords
    decoding: SearchOptions
    languages: tuple[str, str]
    text: TextOptions


def load_native(
    folder: Path,
    precision: Precision | None,
    threads: int,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Loaded:
    """The engine over any folder that it runs.

    Args:
        folder: ours, an int8 one, or another library's.
        precision: what to compute in; None is what an int8 folder holds, float32 for all others.
        threads: see :class:`uwaga.engine.NativeModel`.
        source_language: code of the language to translate from, where the model knows several.
        target_language: code of the language to translate to.

    Raises:
        ModelError: the folder is damaged, or its model is no Transformer.
        SettingsError: an int8 folder is asked for another precision.
        MissingExtraError: torch is needed to read the folder, and not installed.
    """
    if is_quantised(_config(folder)):
        if precision not in (None, "int8"):
            raise SettingsError(f"{folder}: an int8 model; {precision} needs the model that it was made of")
        found = read_quantised(folder)
        symbols = found.config.symbols.symbols()
        try:
            model = NativeModel(found.settings, symbols, *found.config.sizes, found.packed, threads)
        except ModelError as error:
            raise ModelError(f"{folder}: {error}") from None
        languages = resolve_languages(found.config.languages, source_language, target_language, str(folder))
        decoding, text = _options(found.decoding)
        return Loaded(model, found.source, found.target, decoding, languages, text)
    weights = open_weights(folder, source_language, target_language)
    model = weights.model(precision or "float32", threads)
    decoding, text = _options(weights.decoding)
    return Loaded(model, weights.source, weights.target, decoding, weights.languages, text)


def open_weights(
    folder: Path, source_language: str | None = None, target_language: str | None = None
) -> Weights:
    """A float folder's weights, as they lie in its file.

    Raises:
        ModelError: as :func:`load_native`.
        MissingExtraError: likewise.
    """
    if is_quantised(_config(folder)):
        raise ModelError(f"{folder}: an int8 model already; give the model that it was made of")
    if not is_own(folder):
        return _foreign(folder, source_language, target_language)
    found = open_native(folder)
    sizes, config = found.config.vocabulary, found.config
    return Weights(
        settings=found.settings,
        symbols=config.symbols.symbols(),
        source_size=sizes.source,
        target_size=sizes.target,
        read=found.read,
        source=found.source,
        target=found.target,
        decoding=config.decoding,
        languages=resolve_languages(config.languages, source_language, target_language, str(folder)),
        where=str(found.path),
    )


def of_torch(model: Seq2Seq, where: str) -> dict[str, Any]:
    """What of :class:`Weights` a torch Transformer, or a decoder-only model, says.

    Raises:
        ModelError: it is neither; the message begins with ``where``.
    """
    from uwaga.models.decoder_only import DecoderOnly
    from uwaga.models.transformer import Transformer

    if not isinstance(model, (Transformer, DecoderOnly)):
        raise ModelError(f"{where}: the native engine runs Transformers; use the engine torch")
    state = model.state_dict()
    source = model.source_embedding if isinstance(model, Transformer) else model.embedding
    return {
        "settings": model.settings,
        "symbols": model.symbols,
        "source_size": source.num_embeddings,
        "target_size": model.vocabulary,
        "read": lambda name: state[name].detach().cpu().float().numpy(),
        "where": where,
    }


def is_own(folder: Path) -> bool:
    """Whether a folder is in uwaga's own format, or in none that is known: our own reader says what is wrong.

    Torch-free, where the readers of other formats are not.
    """
    values = _config(folder)
    if values.get("format") != FORMAT and isinstance(values.get("model_type"), str):
        return False
    others = ("model.bin", "model/model.bin")
    return "format" in values or not (
        folder.is_file() or any((folder / name).exists() for name in others) or any(folder.glob("*.npz"))
    )


def is_native(folder: Path) -> bool:
    """Whether the engine runs the model of a folder, as far as its ``config.json`` says."""
    values = _config(folder)
    if is_quantised(values) or not is_own(folder):
        return True
    model = values.get("model")
    return isinstance(model, dict) and model.get("family", "transformer") == "transformer"


def continues(folder: Path) -> bool:
    """Whether a folder holds a decoder-only model."""
    return family_of(folder) in CONTINUING or continues_texts(_config(folder))


def check_translates(folder: Path) -> None:
    """Refuse a folder whose model has no source.

    Raises:
        ModelError: says what it is, and what runs it.
    """
    if continues(folder):
        family = family_of(folder)
        what = f"the family {family!r}" if family else "this int8 model"
        raise ModelError(f"{folder / CONFIG}: {what} is {DECODER[0]}, which {DECODER[1]} run")


def is_translator(folder: Path) -> bool:
    """Whether a folder in a format of uwaga's own holds a translator, as far as its ``config.json`` says."""
    values = _config(folder)
    return values.get("format") == FORMAT or (is_quantised(values) and not continues_texts(values))


def is_int8(folder: Path) -> bool:
    """Whether a folder is an int8 one, which nothing but the engine runs."""
    return is_quantised(_config(folder))


def _foreign(folder: Path, source_language: str | None, target_language: str | None) -> Weights:
    """Another library's model: Marian's and GPT-2's folders without torch, others by torch."""
    config, languages = _config(folder), (source_language, target_language)
    try:
        found = open_foreign(folder, config)
        if found is None:
            return _by_torch(folder, *languages)
    except ImportError:
        raise MissingExtraError(
            f"{folder}: reading this model needs torch; `pip install 'uwaga[train]'`"
        ) from None
    recipe, options = in_languages(found.recipe, found.options, config, *languages, str(folder))
    return Weights(
        settings=recipe.settings,  # type: ignore[arg-type]
        symbols=recipe.target.symbols,
        source_size=recipe.source_vocabulary,
        target_size=recipe.target_vocabulary,
        read=found.read,
        source=recipe.source,
        target=recipe.target,
        decoding=options,
        languages=recipe.languages,
        where=str(folder),
    )


def _by_torch(folder: Path, source_language: str | None, target_language: str | None) -> Weights:
    from uwaga.checkpoints.formats import load_foreign
    from uwaga.checkpoints.huggingface.registry import load_decoder

    if continues(folder):
        found = load_decoder(folder)
    else:
        found = load_foreign(folder, "cpu", "float32", source_language, target_language)
    return Weights(
        **of_torch(found.model, str(folder)),
        source=found.source,
        target=found.target,
        decoding=found.options,
        languages=found.languages,
    )


def _options(decoding: DecodingSettings | SearchOptions) -> tuple[SearchOptions, TextOptions]:
    """Ours say how to take texts too; another library's do not."""
    return (decoding, TextOptions()) if isinstance(decoding, SearchOptions) else from_settings(decoding)


def _config(folder: Path) -> Mapping[str, Any]:
    """``config.json``, empty where it cannot be read: whoever loads the folder says why."""
    try:
        return read_mapping(folder / CONFIG)
    except ModelError:
        return {}

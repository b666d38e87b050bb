"""int8 and int4 model folders, with weights packed for the native engine.

A folder contains ``config.json`` (whose schema permits no other keys), ``engine.safetensors``, the
tokenisers' files and ``card.md``. ``uwaga convert --int8`` and ``--int4`` write such folders; the models run
without PyTorch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.alignment_head import HEAD_FILE, head_bytes
from uwaga.checkpoints.card import CARD, read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory, WeightSummary
from uwaga.checkpoints.formats.uwaga.int8_config import (
    PRECISIONS,
    VERSIONS,
    Frame,
    LanguageTokens,
    QuantisedConfig,
    SpecialToken,
    check_layers,
    check_quantised_config,
    check_size,
    read_decoding,
    read_quantised_config,
)
from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET
from uwaga.checkpoints.formats.uwaga.names import INT8_WEIGHTS as WEIGHTS
from uwaga.checkpoints.formats.uwaga.read import SymbolIds, decoding_settings, expand_model, read_tokeniser
from uwaga.checkpoints.languages import Languages
from uwaga.checkpoints.storage.json_file import read_mapping
from uwaga.checkpoints.storage.memory import SharedFile, read_private
from uwaga.checkpoints.storage.safetensors_files import (
    FORMAT_NAMES,
    aligned_bytes,
    check_header,
    parse_tensors,
)
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.engine.layout import EngineSettings, PackedLayout, stored_shapes
from uwaga.engine.packing import KEPT_FORMATS, Matrix, PackedWeights
from uwaga.errors import ModelError, printable
from uwaga.files.atomic import write_folder
from uwaga.search import SearchOptions
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.chat_template import ChatTemplate
from uwaga.tokenizers.codecs import SentencePieceCodec, TokenizersCodec, read_tokenizer_json
from uwaga.tokenizers.framed import FramedTokeniser, needed_rows
from uwaga.tokenizers.marian import MarianTokeniser, read_vocabulary
from uwaga.tokenizers.pretrained_files import TOKENIZER_FILE, AddedToken, TokeniserConfig, read_bytes
from uwaga.tokenizers.sentencepiece import read_sentencepiece
from uwaga.tokenizers.subwords import Subwords
from uwaga.tokenizers.tokeniser import Tokeniser

VOCABULARIES = ("source.vocab.json", "target.vocab.json")
TOKENISER_FILES = frozenset({SOURCE, TARGET, TOKENIZER_FILE, *VOCABULARIES})


def tokeniser_files(source: Subwords, target: Subwords) -> dict[str, bytes]:
    """Return the contents of the tokenisers' files by file name."""
    if isinstance(source, Tokeniser) and isinstance(target, Tokeniser):
        files = {SOURCE: source.model_bytes}
        return files if source.model_bytes == target.model_bytes else files | {TARGET: target.model_bytes}
    if _is_plain_marian(source) and _is_plain_marian(target):
        files = {}
        for side, name, vocabulary in zip((source, target), (SOURCE, TARGET), VOCABULARIES, strict=True):
            model, pieces = side.files
            files |= {name: model, vocabulary: json.dumps(dict(pieces), ensure_ascii=False).encode()}
        return files
    codec = _shared_codec(source, target)
    if isinstance(codec, TokenizersCodec):
        return {TOKENIZER_FILE: codec.content}
    if isinstance(codec, SentencePieceCodec):
        if codec.model_file is not None:
            return {SOURCE: codec.model_file}
        ids = json.dumps(codec.vocabulary, ensure_ascii=False).encode()
        return {SOURCE: codec.sentencepiece_file, VOCABULARIES[0]: ids}
    raise ModelError(
        "this kind of tokeniser cannot be stored in int8 and int4 folders; run the original model with "
        "--dtype int8 or --dtype int4"
    )


def tokeniser_kind(tokeniser: Subwords) -> str:
    """Return the kind of a tokeniser, as named in ``config.json``."""
    if isinstance(tokeniser, Tokeniser):
        return "uwaga"
    if isinstance(tokeniser, MarianTokeniser):
        return "marian"
    codec = tokeniser.codec if isinstance(tokeniser, FramedTokeniser) else None
    if not isinstance(codec, SentencePieceCodec):
        return "tokenizers"
    return "numbered" if codec.model_file is None else "sentencepiece"


def tokeniser_frame(languages: Languages) -> dict[str, Any] | None:
    """Return the group ``frame`` of ``config.json``, or None if the tokenisers need none."""
    source, target = languages.source, languages.target
    if not isinstance(source, FramedTokeniser) or not isinstance(target, FramedTokeniser):
        return None
    frame: dict[str, Any] = {"prefix": source.prefix, "suffix": source.suffix, "clean": source.clean}
    if isinstance(source.codec, SentencePieceCodec) and source.codec.model_file is None:
        frame["strip"] = source.codec.strip
        frame["special"] = [
            {"id": token_id, "text": token.content, **_token_flags(token)}
            for token_id, token in source.codec.special_tokens.items()
        ]
    if source.languages:
        frame["languages"] = {
            "tokens": dict(source.languages),
            "positions": (source.language_position, target.language_position),
            "selected": (source.language, target.language),
        }
    frame["tasks"] = [
        {"source": pair[0], "target": pair[1], "prefix": prefix} for pair, prefix in languages.tasks.items()
    ]
    return frame


def _token_flags(token: AddedToken | SpecialToken) -> dict[str, bool]:
    return {"lstrip": token.lstrip, "rstrip": token.rstrip, "special": token.special}


def _is_plain_marian(tokeniser: Subwords) -> TypeGuard[MarianTokeniser]:
    """Return True for a Marian tokeniser that adds nothing but the end symbol to a text."""
    if not isinstance(tokeniser, MarianTokeniser):
        return False
    return tokeniser.add_special_tokens([]) == [tokeniser.symbols.end]


def _shared_codec(source: Subwords, target: Subwords) -> TokenizersCodec | SentencePieceCodec | None:
    """Return the codec that two tokenisers share, or None if they need different codecs or frames."""
    if not isinstance(source, FramedTokeniser) or not isinstance(target, FramedTokeniser):
        return None
    same_language = replace(
        target, symbols=source.symbols, language=source.language, language_position=source.language_position
    )
    if same_language != source or source.prompt_prefix or source.stop:
        return None
    codec = source.codec
    return codec if isinstance(codec, TokenizersCodec | SentencePieceCodec) else None


def read_tokenisers(folder: Path, config: QuantisedConfig) -> tuple[Subwords, Subwords]:
    """Return the source and the target tokeniser of a folder."""
    sizes, expected_symbols = config.vocabulary, config.symbols.symbols()
    if config.tokenisers == "marian":
        sides = [
            MarianTokeniser(
                read_sentencepiece(folder / name),
                read_vocabulary(folder / vocabulary, size),
                expected_symbols,
                str(folder / vocabulary),
            )
            for name, vocabulary, size in zip(
                (SOURCE, TARGET), VOCABULARIES, (sizes.source, sizes.target), strict=True
            )
        ]
        return sides[0], sides[1]
    if config.frame is not None:
        return _with_languages(_framed_tokeniser(folder, config, config.frame), config.frame.languages)
    source = read_tokeniser(folder / SOURCE)
    target = source if sizes.joint else read_tokeniser(folder / TARGET)
    for name, side, size in ((SOURCE, source, sizes.source), (TARGET, target, sizes.target)):
        if side.size != size or side.symbols != expected_symbols:
            raise ModelError(
                f"{folder / name}: has {side.size} pieces and {side.symbols}, but {CONFIG} states {size} and "
                f"{expected_symbols}; the tokeniser belongs to another model"
            )
    return source, target


def _framed_tokeniser(folder: Path, config: QuantisedConfig, frame: Frame) -> FramedTokeniser:
    size = config.vocabulary.target
    codec: TokenizersCodec | SentencePieceCodec
    if config.tokenisers == "sentencepiece":
        path = folder / SOURCE
        codec = SentencePieceCodec.from_piece_types(read_bytes(path), str(path))
    elif config.tokenisers == "numbered":
        path = folder / VOCABULARIES[0]
        codec = SentencePieceCodec.from_vocabulary(
            read_sentencepiece(folder / SOURCE),
            _read_ids(path, size),
            {token.id: AddedToken(token.text, **_token_flags(token)) for token in frame.special},
            config.symbols.unknown,
            frame.strip,
        )
    else:
        path = folder / TOKENIZER_FILE
        codec = read_tokenizer_json(folder, TokeniserConfig({}, {}, {}))
    frame_ids = (*frame.prefix, *frame.suffix, *(frame.languages.tokens.values() if frame.languages else ()))
    if needed_rows(codec, size) > size or max(frame_ids, default=0) >= size:
        raise ModelError(
            f"{path}: has {codec.size} pieces, but {CONFIG} states {size}; the tokeniser belongs to "
            "another model"
        )
    return FramedTokeniser(
        codec=codec,
        symbols=config.symbols.symbols(),
        vocabulary=size,
        name=str(folder),
        prefix=tuple(frame.prefix),
        suffix=tuple(frame.suffix),
        clean=frame.clean,
    )


def _with_languages(
    tokeniser: FramedTokeniser, languages: LanguageTokens | None
) -> tuple[FramedTokeniser, FramedTokeniser]:
    """Return the source and the target tokeniser, with the language tokens of a multilingual model."""
    if languages is None:
        return tokeniser, tokeniser
    source, target = (
        replace(tokeniser, languages=languages.tokens, language_position=position)
        for position in languages.positions
    )
    selected_source, selected_target = languages.selected
    return (
        source if selected_source is None else source.with_language(selected_source),
        target if selected_target is None else target.with_language(selected_target),
    )


def _read_ids(path: Path, size: int) -> dict[str, int]:
    """Return a mapping from pieces to ids.

    The ids need not be consecutive, and one may equal ``size``, which is beyond the rows of the embeddings.
    """
    values = read_mapping(path)
    ids = [token_id for token_id in values.values() if type(token_id) is int and 0 <= token_id <= size]
    if not values or len(set(ids)) != len(values):
        raise ModelError(
            f"{path}: the pieces do not have distinct ids from 0 to {size}; convert the model again"
        )
    return values


FILES = frozenset({CONFIG, WEIGHTS, CARD, HEAD_FILE, *TOKENISER_FILES})


def write_quantised(folder: Path, checkpoint: Checkpoint, packed: PackedWeights, card: str) -> None:
    """Write an int8 or int4 folder atomically, replacing any int8 or int4 model in the folder.

    Args:
        folder: the folder to create.
        checkpoint: the model.
        packed: the model's weights in int8 or int4.
        card: the model card in Markdown.
    """
    _check_replaceable(folder)
    settings, source, target = checkpoint.settings, checkpoint.source, checkpoint.target
    files = tokeniser_files(source, target)
    if checkpoint.alignment_head is not None:
        files = files | {HEAD_FILE: head_bytes(checkpoint.alignment_head)}
    matrices, kept_format = packed.matrices, KEPT_FORMATS[packed.precision]
    kept_names = [name for name, matrix in matrices.items() if matrix.format == kept_format]
    sizes = checkpoint.source_vocabulary, checkpoint.target_vocabulary
    assert isinstance(settings, EngineSettings)
    content = aligned_bytes(
        _file_tensors(packed, PackedLayout.for_settings(settings, *sizes, packed.precision, kept_names))
    )
    format_name = next(name for name, precision in PRECISIONS.items() if precision == packed.precision)
    values: dict[str, Any] = {
        "format": format_name,
        "version": VERSIONS[format_name],
        "languages": checkpoint.languages.stated,
        "tokenisers": tokeniser_kind(source),
        "frame": tokeniser_frame(checkpoint.languages),
        "chat": _chat_values(checkpoint.chat),
        "vocabulary": {
            "source": checkpoint.source_vocabulary,
            "target": checkpoint.target_vocabulary,
            "joint": TARGET not in files,
        },
        "symbols": SymbolIds.from_symbols(checkpoint.symbols).model_dump(exclude_none=True),
        "model": settings.model_dump(),
        "weights": {
            "levels": max((m.levels for m in matrices.values() if m.format == "int8"), default=127),
            "kept": kept_names,
            "spread": any(matrix.spread for matrix in matrices.values()) or None,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        },
        "usual_score": None if checkpoint.score_stats is None else checkpoint.score_stats.model_dump(),
    } | _decoding_values(checkpoint)
    config = check_quantised_config(values, str(folder / CONFIG))
    config_values = config.model_dump(mode="json", exclude_none=True)
    config_values["model"] = {
        name: value for name, value in expand_model(config.model).items() if value is not None
    }
    text = json.dumps(config_values, indent=2, ensure_ascii=False)
    write_folder(folder, files | {CONFIG: text.encode() + b"\n", CARD: card.encode(), WEIGHTS: content})


def _chat_values(chat: ChatTemplate | None) -> dict[str, Any] | None:
    if chat is None:
        return None
    return {"template": chat.text, "special": dict(chat.special), "family": chat.family}


def _chat_template(config: QuantisedConfig, path: Path) -> ChatTemplate | None:
    chat = config.chat
    return None if chat is None else ChatTemplate(chat.template, chat.special, chat.family, str(path))


def read_quantised(folder: Path, memory: Memory = "fast") -> Checkpoint:
    """Read an int8 or int4 folder and check its contents.

    Args:
        folder: a folder written by :func:`write_quantised`.
        memory: ``shared`` to memory-map the weights instead of copying them, or ``none`` to read no weights;
            see :class:`uwaga.checkpoints.registry.Format`.
    """
    config = read_quantised_config(folder)
    source, target = read_tokenisers(folder, config)
    packed, summary = None, None
    problems: tuple[str, ...] = ()
    if memory == "none":
        summary, problems = _summary(folder / WEIGHTS, config)
    else:
        packed = _read_weights(folder / WEIGHTS, config, memory == "shared")
    decoding, text = read_decoding(config, folder / CONFIG)
    card = read_card(folder)
    return Checkpoint(
        path=folder,
        format=f"uwaga {config.precision}",
        family=config.model.family,
        settings=config.model,
        symbols=config.symbols.symbols(),
        source_vocabulary=config.vocabulary.source,
        target_vocabulary=config.vocabulary.target,
        vocabulary=config.sizes,
        source=source,
        target=target,
        languages=Languages(
            source,
            target,
            config.languages,
            decoding.first,
            tasks={(task.source, task.target): task.prefix for task in config.tasks},
            card=card,
            location=str(folder),
        ),
        decoding=decoding,
        text=text,
        card=card,
        packed=packed,
        score_stats=config.usual_score,
        chat=_chat_template(config, folder / CONFIG),
        summary=summary,
        problems=problems,
        trained_to_translate=isinstance(config.model, DecoderOnlySettings) and config.decoding is not None,
    )


def _summary(path: Path, config: QuantisedConfig) -> tuple[WeightSummary, tuple[str, ...]]:
    """Return a summary of the weights, with the original number of parameters, and the file's problems."""
    try:
        check_layers(path, config)
        shapes = stored_shapes(config.model, *config.sizes, printable(path.parent / CONFIG))
    except ModelError as error:
        return WeightSummary(None, 0, ()), (str(error),)
    parameters = sum(map(math.prod, shapes.values()))
    names = {"int8": "I8", "int4": "I4", "bfloat16": "BF16"}
    precisions = [config.precision, *([KEPT_FORMATS[config.precision]] if config.weights.kept else [])]
    formats = (*(names[precision] for precision in precisions), "F32")
    return WeightSummary(parameters, config.weights.bytes, formats), ()


def _read_weights(path: Path, config: QuantisedConfig, is_shared: bool) -> PackedWeights:
    """Read and check the weights, memory-mapped if ``is_shared`` is True, otherwise copied."""
    check_layers(path, config)
    location = printable(path.parent / CONFIG)
    layout = PackedLayout.for_settings(
        config.model, *config.sizes, config.precision, config.weights.kept, location
    )
    check_size(
        path,
        config,
        sum(_byte_count(tensor.shape, tensor.number_format) for tensor in layout.tensors.values()),
    )
    check_header(
        path,
        {name: tensor.shape for name, tensor in layout.tensors.items()},
        {name: tensor.number_format for name, tensor in layout.tensors.items()},
    )
    file = SharedFile(path) if is_shared else None
    content = read_private(path) if file is None else file.read_all()
    if hashlib.sha256(content.data).hexdigest() != config.weights.sha256:
        raise ModelError(
            f"{path}: damaged: the checksum differs from that in {CONFIG}; convert the model again"
        )
    packed = _packed_weights(path, config, layout, parse_tensors(path, content))
    if file is not None:
        file.check()
        packed = packed._replace(check=file.check)
    return packed


def _file_tensors(packed: PackedWeights, layout: PackedLayout) -> dict[str, NDArray[Any]]:
    """Return the tensors of the file; panels come first, since they must be aligned to 64 bytes."""
    panels: dict[str, NDArray[Any]] = {}
    others: dict[str, NDArray[Any]] = {}
    for name, matrix in packed.matrices.items():
        first_array, *remaining_arrays = layout.matrices[name].arrays
        panels[first_array] = matrix.arrays[0]
        others |= dict(zip(remaining_arrays, matrix.arrays[1:], strict=True))
    return panels | others | packed.vectors


def _packed_weights(
    path: Path, config: QuantisedConfig, layout: PackedLayout, tensors: Mapping[str, StoredTensor]
) -> PackedWeights:
    matrices: dict[str, Matrix] = {}
    vectors = dict(tensors)
    for name, matrix in layout.matrices.items():
        arrays = tuple(vectors.pop(array).values for array in matrix.arrays)
        if matrix.precision != "bfloat16" and not np.isfinite(arrays[1]).all():
            raise ModelError(
                f"{path}: the scales of {name!r} contain numbers that are not finite; convert the model again"
            )
        spread = bool(config.weights.spread) and matrix.precision == "int8"
        matrices[name] = Matrix(
            matrix.outputs, matrix.inputs, matrix.precision, config.weights.levels, arrays, spread
        )
    others = {name: tensor.floats() for name, tensor in vectors.items()}
    for name, values in others.items():
        if not np.isfinite(values).all():
            raise ModelError(
                f"{path}: {name!r} contains numbers that are not finite; convert the model again"
            )
    return PackedWeights(matrices, others, config.precision)


def _check_replaceable(folder: Path) -> None:
    """Raise ModelError if the folder exists and contains anything but an int8 or int4 model."""
    if not folder.exists():
        return
    existing_names = [path.name for path in folder.iterdir()] if folder.is_dir() else [folder.name]
    if not existing_names:
        return
    foreign_names = sorted(set(existing_names) - FILES)
    if foreign_names or WEIGHTS not in existing_names:
        raise ModelError(
            f"{folder}: contains {(foreign_names or existing_names)[0]!r}, which is not part of an int8 or "
            "int4 model, so the folder is not overwritten; give another folder"
        )


def _decoding_values(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the group ``decoding`` or, if it cannot express all options, ``search`` and ``text``."""
    decoding = decoding_settings(checkpoint.decoding, checkpoint.text)
    if decoding is not None and checkpoint.task == "translate":
        return {"decoding": decoding.model_dump()}
    return {"search": _search_values(checkpoint.decoding), "text": asdict(checkpoint.text)}


def _search_values(options: SearchOptions) -> dict[str, Any]:
    """Return search options as JSON values, with None instead of infinity."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in values.items()
        if name not in ("seed", "attention", "batch_tokens") and (name, value) != ("start", None)
    }


def _byte_count(shape: tuple[int, ...], kind: str) -> int:
    widths = {name: np.dtype(numpy_name).itemsize for numpy_name, name in FORMAT_NAMES.items()}
    return math.prod(shape) * widths[kind]

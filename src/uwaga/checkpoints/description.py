"""What a model's folder is, read without its weights' numbers and without torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError, safe_open

from uwaga.checkpoints.huggingface.config import GENERATION, family_of, read_mapping, search_options
from uwaga.checkpoints.uwaga.card import read_card
from uwaga.checkpoints.uwaga.int8 import is_quantised, read_quantised_config
from uwaga.checkpoints.uwaga.schema import CONFIG, WEIGHTS, is_model_folder, read_config
from uwaga.decoding import SearchOptions
from uwaga.engine.layout import stored_shapes
from uwaga.errors import ModelError, UwagaError
from uwaga.text.framed import FramedTokeniser
from uwaga.text.marian import LANGUAGE
from uwaga.text.multilingual import read_m2m100_tokeniser, read_mbart_tokeniser, read_nllb_tokeniser
from uwaga.text.pretrained import TokenIds

INDEX = "model.safetensors.index.json"
OLDER = "pytorch_model*.bin"
FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
SIZES: Mapping[str, tuple[str, ...]] = {
    "width": ("d_model", "hidden_size", "n_embd"),
    "encoder layers": ("encoder_layers", "num_layers"),
    "decoder layers": ("decoder_layers", "num_decoder_layers", "num_layers"),
    "layers": ("n_layer",),
    "heads": ("encoder_attention_heads", "num_attention_heads", "num_heads", "n_head"),
    "feed-forward": ("encoder_ffn_dim", "intermediate_size", "d_ff", "n_inner"),
    "positions": ("max_position_embeddings", "n_positions"),
}
"""Our words, and the keys of ``config.json`` in the order in which they are looked for."""
Found = TypeVar("Found")
SEARCH = ("beam", "length_penalty", "min_length", "max_length", "no_repeat_ngram", "sample")


Languages = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Weights:
    """The stored weights: how many floating-point numbers (None: not known), bytes, number formats."""

    parameters: int | None
    bytes: int
    formats: tuple[str, ...]


@dataclass(frozen=True)
class Description:
    """What a model is.

    Attributes:
        place: folder or file.
        format: ``uwaga``, ``uwaga int8``, ``Hugging Face``, ``CTranslate2``, ``Argos Translate`` or
            ``Marian``.
        family: ``transformer``, ``marian``, ``bart`` and so on.
        sizes: width, layers and so on, as far as stated.
        weights: how many, and in what number formats.
        vocabulary: pieces of source and target.
        languages: those it translates from, and those it translates to; empty where nothing is stated.
        licence: as the model card states it, None where it does not.
        decoding: how it translates unless told otherwise.
        problems: why parts are not known, or why the model will not load.
    """

    place: str
    format: str
    family: str
    sizes: Mapping[str, int | float | str | bool]
    weights: Weights
    vocabulary: tuple[int, ...]
    languages: Languages
    licence: str | None
    decoding: Mapping[str, object]
    problems: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, object]:
        """The description for JSON, its languages by their side."""
        source, target = self.languages
        return asdict(self) | {"languages": {"source": list(source), "target": list(target)}}


def describe(place: Path) -> Description:
    """Describe a model folder or file.

    Raises:
        ModelError: it is none that we know, or its settings cannot be read.
    """
    from uwaga.checkpoints.description_other import describe_other

    if is_model_folder(place):
        return _ours(place)
    if (place / CONFIG).is_file() and is_quantised(read_mapping(place / CONFIG)):
        return _int8(place)
    if family_of(place) is not None:
        return _hugging_face(place)
    found = describe_other(place)
    if found is None:
        raise ModelError(
            f"{place}: no model that uwaga knows: no {CONFIG} of uwaga's or Hugging Face's, no CTranslate2 "
            "folder, Argos package or Marian .npz"
        )
    return found


def read_headers(folder: Path) -> Weights:
    """What the headers of a folder's weight files say; of ``pytorch_model.bin`` only its size.

    Raises:
        ModelError: there are no weights, or a header is damaged.
    """
    paths = [folder / WEIGHTS] if (folder / WEIGHTS).is_file() else []
    if not paths and (folder / INDEX).is_file():
        names = read_mapping(folder / INDEX).get("weight_map")
        paths = sorted({folder / Path(str(name)).name for name in (names or {}).values()})
    if not paths:
        older = sorted(folder.glob(OLDER))
        if not older:
            raise ModelError(f"{folder}: holds no weights ({WEIGHTS}); fetch or save the model again")
        return Weights(None, sum(path.stat().st_size for path in older), ())
    count, total, formats = 0, 0, set[str]()
    for path in paths:
        try:
            total += path.stat().st_size
            with safe_open(path, framework="numpy") as file:
                for name in file.keys():  # noqa: SIM118 (not a mapping)
                    part = file.get_slice(name)
                    if part.get_dtype() in FLOATS:
                        count += math.prod(part.get_shape())
                        formats.add(part.get_dtype())
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path}: damaged or cut short ({error}); fetch the model again") from None
    return Weights(count, total, tuple(sorted(formats)))


def _ours(folder: Path) -> Description:
    config = read_config(folder)
    card = read_card(folder)
    problems: list[str] = []
    model = config.model.model_dump(mode="json")
    sizes = _stated(model)
    family = str(sizes.pop("family", "transformer"))
    source, target = config.languages
    return Description(
        place=str(folder),
        format="uwaga",
        family=family,
        sizes=sizes,
        weights=_tried(lambda: read_headers(folder), Weights(None, 0, ()), problems),
        vocabulary=(config.vocabulary.source, config.vocabulary.target),
        languages=((source,), (target,)),
        licence=card.licence,
        decoding=config.decoding.model_dump(mode="json"),
        problems=tuple(problems),
    )


def _int8(folder: Path) -> Description:
    config = read_quantised_config(folder)
    card = read_card(folder)
    sizes = _stated(config.model.model_dump(mode="json"))
    family = sizes.pop("family", "transformer")
    stored = stored_shapes(config.model, *config.sizes)
    decoding: dict[str, object] = {key: one for key, one in (config.search or {}).items() if key in SEARCH}
    if config.decoding is not None:
        decoding = config.decoding.model_dump(mode="json")
    return Description(
        place=str(folder),
        format="uwaga int8",
        family=str(family),
        sizes=sizes,
        weights=Weights(
            sum(math.prod(shape) for shape in stored.values()),
            config.weights.bytes,
            ("I8", *(["BF16"] if config.weights.kept else []), "F32"),
        ),
        vocabulary=(config.vocabulary.source, config.vocabulary.target),
        languages=(config.languages[:1], config.languages[1:]),
        licence=card.licence,
        decoding=decoding,
    )


def _stated(model: Mapping[str, Any]) -> dict[str, int | float | str | bool]:
    return {
        name.replace("_", " "): value for name, value in model.items() if type(value) in (int, float, str)
    }


def _hugging_face(folder: Path) -> Description:
    config = read_mapping(folder / CONFIG)
    card = read_card(folder)
    problems: list[str] = []
    size = config.get("vocab_size")
    vocabulary = tuple(one for one in (size, config.get("decoder_vocab_size", size)) if type(one) is int)
    nothing: Languages = ((), ())
    languages = _tried(lambda: _languages(folder, config), nothing, problems)
    if not any(languages) and card.languages:
        languages = (card.languages, card.languages)
    return Description(
        place=str(folder),
        format="Hugging Face",
        family=str(config["model_type"]),
        sizes=_sizes(config),
        weights=_tried(lambda: read_headers(folder), Weights(None, 0, ()), problems),
        vocabulary=vocabulary,
        languages=languages,
        licence=card.licence,
        decoding=_tried(lambda: _search(folder, config), {}, problems),
        problems=tuple(problems),
    )


def _sizes(config: Mapping[str, Any]) -> dict[str, int | float | str | bool]:
    found: dict[str, int | float | str | bool] = {}
    for name, keys in SIZES.items():
        stated = [config[key] for key in keys if type(config.get(key)) is int]
        if stated:
            found[name] = stated[0]
    if "encoder layers" not in found and type(config.get("num_hidden_layers")) is int:
        found["layers"] = config["num_hidden_layers"]
    return found


def _search(folder: Path, config: Mapping[str, Any]) -> dict[str, object]:
    """The decoding defaults that the folder states."""
    path = folder / GENERATION
    stated = read_mapping(path) if path.exists() else dict(config)
    options = search_options(folder, config)
    shown = {one.name: getattr(options, one.name) for one in fields(SearchOptions) if one.name in SEARCH}
    if stated.get("max_length") is None and stated.get("max_new_tokens") is None:
        del shown["max_length"]
    return shown


def _languages(folder: Path, config: Mapping[str, Any]) -> Languages:
    """The languages that a folder's tokeniser and settings state."""
    family, path = config["model_type"], folder / "tokenizer_config.json"
    if family in ("mbart", "m2m_100"):
        found = tuple(sorted(_multilingual(folder, config)))
        return found, found
    values = read_mapping(path) if path.exists() else {}
    if family == "marian" and (folder / "vocab.json").exists():
        pieces = read_mapping(folder / "vocab.json")
        targets = tuple(sorted(piece[2:-2] for piece in pieces if LANGUAGE.fullmatch(piece)))
        stated = [values.get(key) for key in ("source_lang", "target_lang")]
        one, other = (((str(code),) if code else ()) for code in stated)
        return one, targets or other
    return (), ()


def _multilingual(folder: Path, config: Mapping[str, Any]) -> Mapping[str, int]:
    """The languages' tokens, the same on both sides."""
    path = folder / "tokenizer_config.json"
    kind = str((read_mapping(path) if path.exists() else {}).get("tokenizer_class") or "")
    reader = read_mbart_tokeniser
    if config["model_type"] == "m2m_100":
        nllb = kind.startswith("Nllb") or not (folder / "vocab.json").exists()
        reader = read_nllb_tokeniser if nllb else read_m2m100_tokeniser
    size = config.get("vocab_size")
    if type(size) is not int:
        raise ModelError(f"{folder / CONFIG}: 'vocab_size' must be a whole number, not {size!r}")
    source = reader(folder, TokenIds(size)).source
    return source.languages if isinstance(source, FramedTokeniser) else {}


def _tried(read: Callable[[], Found], otherwise: Found, problems: list[str]) -> Found:
    """What ``read`` finds, or else a note of why it does not."""
    try:
        return read()
    except UwagaError as error:
        problems.append(str(error))
        return otherwise

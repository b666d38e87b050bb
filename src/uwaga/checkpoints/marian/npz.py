"""Marian's own ``.npz`` (Junczys-Dowmunt et al. 2018): weights, with the model's settings as YAML in them.

Two things are as Marian computes them, where conversions of its models to other libraries differ a little:
the rates of its sinusoids are ``10000^(-i / (width/2 - 1))``, and its norms add 1e-9 to the variance.
The decoder starts from a zero embedding; that is ``<pad>``, which becomes the last token of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.files.npz import read_npz
from uwaga.checkpoints.files.stored_tensor import FORMATS, StoredTensor
from uwaga.checkpoints.languages import UNKNOWN, Languages
from uwaga.checkpoints.marian.vocabulary import Texts, read_texts
from uwaga.checkpoints.plausible import check_against_weights
from uwaga.checkpoints.shapes import weight_shapes
from uwaga.checkpoints.weight_map import Longer, Table, View, map_weights
from uwaga.errors import ModelError, SettingsError, shown
from uwaga.settings import TransformerSettings, parse
from uwaga.settings.yaml_reader import load_yaml

NAME = "Marian"
SETTINGS = "special:model.yml"
LARGEST = 1 << 20
"""Bytes of the settings."""
EPSILON = 1e-9
LONGEST = 1024
"""Positions; Marian computes any."""
NEVER = -1e4
OUTPUT, TURNED_OUTPUT, OUTPUT_BIAS = (f"decoder_ff_logit_out_{name}" for name in ("W", "Wt", "b"))
ACTIVATIONS = {"relu": "relu", "swish": "silu"}
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-no-projection": (False,),
    "transformer-tied-layers": ([],),
    "transformer-pool": (False,),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "right-left": (False,),
    "lemma-dim-emb": (0,),
    "ulr": (False,),
    "input-types": ([], ["sequence", "sequence"]),
}
"""Features that we lack, with the values that switch them off; one that is not stated is off."""
PLACES: dict[tuple[str, str, str], Literal["post", "pre"]] = {("", "an", ""): "post", ("n", "a", "n"): "pre"}
"""Operations before and behind a block and behind the last (a: add, n: norm), dropout left out."""


def read_marian(path: Path) -> Checkpoint:
    """Read a model of Marian's, with ``decoder.yml`` and the vocabularies that stand beside it.

    Args:
        path: the ``.npz`` file, or a folder with one (that which ``decoder.yml`` names, if several).

    Raises:
        ModelError: a missing or damaged file, a feature that uwaga lacks, a weight that is missing,
            unknown or of another shape, a vocabulary of another size.
    """
    texts = read_texts(path)
    arrays = read_npz(texts.model)
    options = _embedded(texts.model, arrays)
    settings = _settings(texts.model, options)
    stored = {name: _stored(texts.model, name, array) for name, array in arrays.items()}
    check_against_weights(f"{texts.model} ({SETTINGS})", settings, max(texts.sizes), stored)
    table = _table(texts, settings, TURNED_OUTPUT in stored)
    card = read_card(texts.model.parent)
    return Checkpoint(
        place=path,
        format=NAME,
        family=str(options.get("type", "transformer")),
        settings=settings,
        symbols=texts.symbols,
        source_vocabulary=texts.size,
        target_vocabulary=texts.size,
        vocabulary=texts.sizes,
        source=texts.source,
        target=texts.target,
        languages=Languages(
            texts.source, texts.target, UNKNOWN, texts.options.first, {}, card.languages, str(path)
        ),
        decoding=texts.options,
        card=card,
        weights=map_weights(weight_shapes(settings, texts.size, texts.size), table, stored, str(texts.model)),
    )


def _stored(path: Path, name: str, array: NDArray[Any]) -> StoredTensor:
    kind = FORMATS.get(array.dtype.name)
    if kind is None:
        raise ModelError(f"{path}: {name!r} is of {array.dtype}, not numbers that are read here")
    return StoredTensor(name, path, kind, array)


def _embedded(path: Path, stored: dict[str, NDArray[Any]]) -> Mapping[str, Any]:
    """The settings among the weights."""
    content = stored.pop(SETTINGS, None)
    if content is None or content.itemsize != 1 or content.size > LARGEST:
        raise ModelError(f"{path}: holds no {SETTINGS!r}, so it is not a model that Marian saved")
    try:
        values = load_yaml(content.tobytes().rstrip(b"\0").decode("utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: {SETTINGS!r} is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: {SETTINGS!r} is not a mapping")
    return values


def _settings(path: Path, options: Mapping[str, Any]) -> TransformerSettings:
    def stated(name: str, usual: object) -> Any:
        value = options.get(name)
        return usual if value is None else value

    for name, neutral in UNSUPPORTED.items():
        if stated(name, neutral[0]) not in neutral:
            raise ModelError(f"{path}: {name} = {shown(options[name])} is a feature that uwaga lacks")
    operations = ("preprocess", "postprocess", "postprocess-top")
    place = tuple(str(stated(f"transformer-{name}", "")).replace("d", "") for name in operations)
    embedded = str(stated("transformer-postprocess-emb", "d")).replace("d", "")
    if place not in PLACES or embedded not in ("", "n"):
        said = ", ".join(f"transformer-{name} {stated(f'transformer-{name}', '')!r}" for name in operations)
        raise ModelError(
            f"{path}: {said}, transformer-postprocess-emb {embedded!r}: uwaga has norms behind the blocks "
            "('', 'dan', '') or before them ('n', 'da', 'n')"
        )
    activation = stated("transformer-ffn-activation", "swish")
    if activation not in ACTIVATIONS:
        raise ModelError(
            f"{path}: transformer-ffn-activation {shown(activation)} is a feature that uwaga lacks"
        )
    learned = bool(
        stated("transformer-train-positions", stated("transformer-train-position-embeddings", False))
    )
    values = {
        "encoder_layers": options.get("enc-depth"),
        "decoder_layers": options.get("dec-depth"),
        "width": options.get("dim-emb"),
        "heads": options.get("transformer-heads"),
        "feed_forward": options.get("transformer-dim-ffn"),
        "decoder_feed_forward": stated("transformer-decoder-dim-ffn", 0) or None,
        "activation": ACTIVATIONS[activation],
        "norm": PLACES[place],
        "norm_epsilon": EPSILON,
        "positions": "learned" if learned else "sinusoidal",
        "sinusoids": "tensor2tensor",
        "max_length": stated("max-length", LONGEST) if learned else LONGEST,
        "embedding_scale": not learned,
        "embedding_norm": embedded == "n",
        "output_bias": True,
        "tie": _tie(options),
        "dropout": 0.0,
    }
    try:
        return parse(TransformerSettings, values, f"{path} ({SETTINGS})")
    except SettingsError as error:
        raise ModelError(str(error)) from None


def _tie(options: Mapping[str, Any]) -> str:
    if options.get("tied-embeddings-all"):
        return "all"
    source, output = bool(options.get("tied-embeddings-src")), bool(options.get("tied-embeddings"))
    return {(True, True): "all", (True, False): "embeddings", (False, True): "decoder"}.get(
        (source, output), "none"
    )


def _table(texts: Texts, settings: TransformerSettings, turned_output: bool) -> Table:
    """Where each weight is stored: (in, out), and arrays of one axis as rows or columns."""
    weights: dict[str, tuple[View, ...]] = {}
    before = settings.norm == "pre"
    for stack, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        own = "attention" if stack == "encoder" else "self_attention"
        for number in range(layers):
            ours, theirs = f"{stack}.{number}", f"{stack}_l{number + 1}"
            weights |= _attention(f"{ours}.{own}", f"{theirs}_self", before)
            if stack == "decoder":
                weights |= _attention(f"{ours}.cross_attention", f"{theirs}_context", before)
            for layer, suffix in (("inner", "1"), ("outer", "2")):
                weights |= _linear(f"{ours}.feed_forward.{layer}", f"{theirs}_ffn_", suffix)
            weights |= _norm(f"{ours}.feed_forward_norm", f"{theirs}_ffn_ffn", before)
        weights |= _norm(f"{stack}_norm", f"{stack}_top", False)
        side = "source" if stack == "encoder" else "target"
        weights |= _norm(f"{side}_norm", f"{stack}_emb", True)
        weights[f"{side}_positions.weight"] = (View("Wpos"),)
    shared = settings.tie in ("all", "embeddings")
    source, target = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    weights["source_embedding.weight"], weights["target_embedding.weight"] = (View(source),), (View(target),)
    output = View(TURNED_OUTPUT) if turned_output else View(OUTPUT, turned=True)
    weights["output_weight"] = (View(target) if settings.tie in ("all", "decoder") else output,)
    weights["output_bias"] = (View(OUTPUT_BIAS),)
    sizes = texts.sizes
    if shared and sizes[0] != sizes[1]:
        raise ModelError(f"{texts.model}: one embedding for vocabularies of {sizes[0]} and {sizes[1]} tokens")
    longer = {name: Longer(sizes[1]) for name in ("target_embedding.weight", "output_weight")}
    longer |= {"source_embedding.weight": Longer(sizes[0]), "output_bias": Longer(sizes[1], NEVER)}
    return Table(weights, zero=("output_bias",), longer=longer, asked=SETTINGS)  # not with --output-omit-bias


def _attention(ours: str, theirs: str, before: bool) -> dict[str, tuple[View, ...]]:
    key = [View(f"{theirs}_{kind}{name}", turned=kind == "W") for kind in "Wb" for name in "kv"]
    return {
        **_linear(f"{ours}.query", f"{theirs}_", "q"),
        f"{ours}.key_value.weight": (key[0], key[1]),
        f"{ours}.key_value.bias": (key[2], key[3]),
        **_linear(f"{ours}.output", f"{theirs}_", "o"),
        **_norm(f"{ours}_norm", f"{theirs}_Wo", before),
    }


def _linear(ours: str, theirs: str, suffix: str) -> dict[str, tuple[View, ...]]:
    return {
        f"{ours}.weight": (View(f"{theirs}W{suffix}", turned=True),),
        f"{ours}.bias": (View(f"{theirs}b{suffix}"),),
    }


def _norm(ours: str, theirs: str, before: bool) -> dict[str, tuple[View, ...]]:
    suffix = "_pre" if before else ""
    return {
        f"{ours}.weight": (View(f"{theirs}_ln_scale{suffix}"),),
        f"{ours}.bias": (View(f"{theirs}_ln_bias{suffix}"),),
    }

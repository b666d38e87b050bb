"""Conversion of GGUF files to models: the metadata become a decoder's settings, and the tensors its weights.

An :class:`Architecture` contains properties of one of llama.cpp's architectures that GGUF files do not state;
all other properties are read from the metadata. Unsupported features and unknown tensors raise an error that
names the key or the tensor.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from uwaga.checkpoints.card import Card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory, WeightSummary
from uwaga.checkpoints.formats.gguf.blocks import BlockTensor
from uwaga.checkpoints.formats.gguf.file import GgufFile, StringArray, read_parts
from uwaga.checkpoints.formats.gguf.tokeniser import read_tokeniser
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, Languages
from uwaga.checkpoints.size_checks import check_against_weights, weight_shapes
from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.checkpoints.weight_map import Table, View, map_weights
from uwaga.engine.layout import Precision
from uwaga.errors import ModelError, quoted
from uwaga.search import SearchOptions
from uwaga.settings import DecoderOnlySettings, RotarySettings
from uwaga.tokenizers.chat_template import ChatTemplate
from uwaga.tokenizers.prompt import choose_prompt

NAME = "GGUF"
MAX_NEW_TOKENS = 256
"""Maximum number of new tokens, since files state no limit."""
EMBEDDING, OUTPUT, FREQUENCIES = "token_embd.weight", "output.weight", "rope_freqs.weight"


@dataclass(frozen=True)
class Architecture:
    """Properties of an architecture that GGUF files do not state.

    Attributes:
        interleaved: True if the rows of query and key matrices alternate between the two halves of a head.
        query_key_norm: ``before`` or ``after`` if queries and keys are normalised before or after the
            rotation, otherwise ``none``.
        is_gemma: True if models have norms before and after each block, GeGLU layers and scaled embeddings.
        global_every: n if every n-th layer has no sliding window; 0 if all layers have a window, None if
            windows are not supported.
        window: default size of the sliding window in tokens.
        local_base: base of rotary positions in layers with a window, None if it is the same in all layers.
        wide_scale_layers: number of layers of the one model size that divides attention scores by the square
            root of width / heads instead of the head width; None if there is no such size.
    """

    interleaved: bool = False
    query_key_norm: Literal["none", "before", "after"] = "none"
    is_gemma: bool = False
    global_every: int | None = None
    window: int | None = None
    local_base: float | None = None
    wide_scale_layers: int | None = None


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(interleaved=True, global_every=0),  # with a window it is Mistral
    "qwen2": Architecture(),
    "qwen3": Architecture(query_key_norm="before"),
    "gemma2": Architecture(is_gemma=True, global_every=2, window=4096, wide_scale_layers=46),
    "gemma3": Architecture(
        is_gemma=True, query_key_norm="before", global_every=6, local_base=10_000.0, wide_scale_layers=62
    ),
    "hunyuan-dense": Architecture(query_key_norm="after"),
}
"""Architectures by the value of ``general.architecture``."""

NEUTRAL_VALUES: Mapping[str, Collection[object]] = {
    "attention.causal": (True,), "attention.clamp_kqv": (0.0,), "attention.max_alibi_bias": (0.0,),
    "attention.output_scale": (0.0, 1.0), "attention.scale": (0.0,), "attention.shared_kv_layers": (0,),
    "attention.temperature_scale": (0.0,), "embedding_scale": (0.0, 1.0), "expert_count": (0,),
    "logit_scale": (0.0, 1.0), "nextn_predict_layers": (0,), "pooling_type": (0,),
    "residual_scale": (0.0, 1.0), "rope.dimension_sections": (), "rope.scale_linear": (0.0, 1.0),
    "rope.scaling.alpha": (0.0, 1.0), "rope.scaling.yarn_log_multiplier": (0.0,),
    "use_parallel_residual": (False,),
}  # fmt: skip
"""Keys of unsupported features, without the architecture prefix, and the values that disable them."""

LAYER_MATRICES = (
    ("attention.query", ("attn_q",)),
    ("attention.key_value", ("attn_k", "attn_v")),
    ("attention.output", ("attn_output",)),
    ("feed_forward.inner", ("ffn_gate",)),
    ("feed_forward.gate", ("ffn_up",)),
    ("feed_forward.outer", ("ffn_down",)),
)
"""Names of a layer's matrices in uwaga and in files; in files, ``gate`` is the branch with the activation."""
LAYER_NORMS = (
    ("attention_norm", "attn_norm"),
    ("attention_after_norm", "post_attention_norm"),
    ("feed_forward_norm", "ffn_norm"),
    ("feed_forward_after_norm", "post_ffw_norm"),
    ("attention.query_norm", "attn_q_norm"),
    ("attention.key_norm", "attn_k_norm"),
)
"""Names of a layer's norms in uwaga and in files. Gemma's stored gains already include the added 1."""


def read_gguf(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a GGUF file, or all files of a split model.

    Args:
        path: the file, or the first file of a split model.
        memory: ``none`` to read no weights; see :class:`uwaga.checkpoints.registry.Format`.
    """
    file = read_parts(path)
    name = file.string("general.architecture")
    if name not in ARCHITECTURES:
        raise ModelError(
            f"{path}: the architecture {quoted(name)} is not supported; uwaga supports "
            f"{', '.join(ARCHITECTURES)}"
        )
    architecture = ARCHITECTURES[name]
    if EMBEDDING not in file.tensors or len(file.tensors[EMBEDDING].shape) != 2:
        raise ModelError(
            f"{path}: there is no matrix {EMBEDDING!r}; the file is incomplete or contains no language model"
        )
    vocabulary = file.tensors[EMBEDDING].shape[0]
    settings = read_settings(file, name)
    check_against_weights(str(path), settings, vocabulary, file.tensors)
    tokeniser = read_tokeniser(file, vocabulary)
    weights = map_weights(
        weight_shapes(settings, vocabulary, vocabulary),
        _weight_table(settings, architecture),
        file.tensors,
        str(path),
    )
    card = _model_card(file)
    tokens = len(file.strings("tokenizer.ggml.tokens"))
    return Checkpoint(
        path=path,
        format=NAME,
        family=name,
        settings=settings,
        symbols=tokeniser.symbols,
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        vocabulary=(tokens, tokens),
        source=tokeniser,
        target=tokeniser,
        languages=Languages(tokeniser, tokeniser, UNSTATED_LANGUAGES, None, {}, card, str(path)),
        decoding=SearchOptions(
            beam=1, max_length=MAX_NEW_TOKENS, max_ratio=math.inf, banned=tuple(range(tokens, vocabulary))
        ),
        card=card,
        chat=_chat_template(file, name),
        weights=weights if memory != "none" else None,
        precision=_precision(file),
        summary=None if memory != "none" else WeightSummary.from_tensors(file.tensors.values()),
        details={"GGUF version": file.version},
    )


def _precision(file: GgufFile) -> Precision | None:
    """Return the engine precision closest to that of most weights, or None if most are unquantised."""
    sizes: dict[Precision | None, int] = {}
    for tensor in file.tensors.values():
        precision: Precision | None = None
        if isinstance(tensor, BlockTensor):
            precision = "int4" if tensor.kind.name.startswith("Q4") else "int8"
        sizes[precision] = sizes.get(precision, 0) + math.prod(tensor.shape)
    return max(sizes, key=sizes.__getitem__)


def read_settings(file: GgufFile, name: str) -> DecoderOnlySettings:
    """Return the settings of a model.

    Args:
        file: the file of the model.
        name: name of its architecture, one of :data:`ARCHITECTURES`.
    """
    return _SettingsReader(file, name, ARCHITECTURES[name]).read()


class _SettingsReader:
    """Converter of a file's metadata to settings."""

    def __init__(self, file: GgufFile, name: str, architecture: Architecture) -> None:
        self.file, self.name, self.architecture = file, name, architecture

    def full_key(self, key: str) -> str:
        return f"{self.name}.{key}"

    def has_key(self, key: str) -> bool:
        return self.full_key(key) in self.file.metadata

    def integer(self, key: str, default: int | None = None) -> int:
        return self.file.integer(self.full_key(key), default, minimum=1)

    def number(self, key: str, default: float | None = None) -> float:
        return self.file.number(self.full_key(key), default)

    def unsupported_value_error(self, key: str, reason: str = "is not supported by uwaga") -> ModelError:
        value = self.file.metadata.get(self.full_key(key))
        return ModelError(f"{self.file.path}: {self.full_key(key)!r} = {quoted(value)} {reason}")

    def read(self) -> DecoderOnlySettings:
        for key, neutral_values in NEUTRAL_VALUES.items():
            if self.has_key(key) and (
                isinstance(value := self.file.metadata[self.full_key(key)], StringArray | np.ndarray)
                or value not in neutral_values
            ):
                raise self.unsupported_value_error(key)
        architecture, tensors = self.architecture, self.file.tensors
        layers, width, heads = (
            self.integer(key) for key in ("block_count", "embedding_length", "attention.head_count")
        )
        head_width = self.integer("attention.key_length", max(width // heads, 1))
        for key in ("attention.value_length", "rope.dimension_count"):
            if self.integer(key, head_width) != head_width:
                raise self.unsupported_value_error(
                    key, f"differs from the head width, {head_width}, which is not supported"
                )
        values: dict[str, Any] = {
            "layers": layers,
            "width": width,
            "heads": heads,
            "key_value_heads": self.integer("attention.head_count_kv", heads),
            "head_width": head_width,
            "feed_forward": self.integer("feed_forward_length"),
            "activation": "gelu_tanh" if architecture.is_gemma else "silu",
            "gated": True,
            "norm": "both" if architecture.is_gemma else "pre",
            "norm_kind": "rms",
            "norm_epsilon": self.number("attention.layer_norm_rms_epsilon"),
            "max_length": self.integer("context_length"),
            "positions": "rotary",
            "rotary": self._rotary_settings(head_width),
            "query_key_norm": architecture.query_key_norm,
            "attention_bias": "blk.0.attn_q.bias" in tensors,
            "output_projection_bias": "blk.0.attn_output.bias" in tensors,
            "feed_forward_bias": False,
            "embedding_scale": architecture.is_gemma,
            "tie_output": OUTPUT not in tensors,
            "dropout": 0.0,
        }
        for name, key in (("score_cap", "attn_logit_softcapping"), ("logit_cap", "final_logit_softcapping")):
            if self.has_key(key) and self.file.metadata[self.full_key(key)] != 0.0:
                values[name] = self.number(key)
        if layers == architecture.wide_scale_layers:
            values["score_scale"] = (width / heads) ** -0.5
        values |= self._window_settings(layers)
        return parse_stored(DecoderOnlySettings, values, str(self.file.path))

    def _window_settings(self, layers: int) -> dict[str, Any]:
        """Return the settings of the sliding window, or an empty dictionary if there is none."""
        key = "attention.sliding_window"
        if self.architecture.global_every is None:
            if self.has_key(key) and self.file.integer(self.full_key(key)) not in (
                0,
                self.integer("context_length"),
            ):
                raise self.unsupported_value_error(key)
            return {}
        window = self.file.integer(self.full_key(key), self.architecture.window or 0)
        interval = self._global_interval(layers, self.architecture.global_every)
        if not window or interval == 1:
            return {}
        values: dict[str, Any] = {"window": window, "global_every": interval}
        if self.architecture.local_base is not None:
            values["local_rotary"] = {"base": self.number("rope.freq_base_swa", self.architecture.local_base)}
        return values

    def _global_interval(self, layers: int, default: int) -> int:
        """Return n if every n-th layer has no window; files state n itself or one flag per layer."""
        key = "attention.sliding_window_pattern"
        value = self.file.metadata.get(self.full_key(key), default)
        if not isinstance(value, np.ndarray):
            return self.file.integer(self.full_key(key), default)
        global_layers = [number for number, is_local in enumerate(value.tolist(), start=1) if not is_local]
        interval = global_layers[0] if global_layers else 0
        if len(value) != layers or global_layers != (
            list(range(interval, layers + 1, interval)) if interval else []
        ):
            raise self.unsupported_value_error(
                key, "is not supported: only every n-th layer may be without a window"
            )
        return interval

    def _rotary_settings(self, head_width: int) -> dict[str, Any]:
        """Return the settings of rotary positions."""
        values: dict[str, Any] = {"base": self.number("rope.freq_base", 10_000.0)}
        factor = 0.0
        if self.file.metadata.get(self.full_key("rope.scaling.factor"), 0.0) != 0.0:
            factor = self.number("rope.scaling.factor")
        kind = self.file.string(self.full_key("rope.scaling.type"), "linear" if factor else "none")
        if kind == "linear" and factor not in (0.0, 1.0):
            values |= {"scaling": kind, "factor": factor}
        elif kind == "yarn":
            length = self.integer("context_length")
            values |= {
                "scaling": kind,
                "factor": factor,
                "original_length": self.integer("rope.scaling.original_context_length", length),
            }
            for name, key in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
                if self.has_key(f"rope.scaling.{key}"):
                    values[name] = self.number(f"rope.scaling.{key}")
            for key in (
                "rope.scaling.attn_factor",
                "rope.scaling.yarn_attn_factor",
                "rope.scaling.yarn_ext_factor",
            ):
                if self.has_key(key) and self.file.metadata[self.full_key(key)] not in (1.0, -1.0):
                    raise self.unsupported_value_error(key)
        elif kind not in ("linear", "none"):
            raise self.unsupported_value_error(
                "rope.scaling.type", "is not supported; uwaga supports none, linear and yarn"
            )
        if FREQUENCIES in self.file.tensors:
            if "scaling" in values:
                raise ModelError(
                    f"{self.file.path}: both {FREQUENCIES!r} and {self.full_key('rope.scaling.type')!r} "
                    "change the rotary positions, which is not supported"
                )
            values |= self._llama3_scaling(values["base"], head_width)
        return values

    def _llama3_scaling(self, base: float, head_width: int) -> dict[str, Any]:
        """Return the settings of Llama 3's scaling, given its frequency divisors in ``rope_freqs``.

        llama.cpp stores the divisors but not the parameters of the scaling. This method uses the parameters
        of all Llama 3 models and checks that the divisors follow from them.
        """
        tensor = self.file.tensors[FREQUENCIES]
        divisors = tensor.floats() if tensor.shape == (head_width // 2,) else np.zeros(1)
        if (divisors == 1.0).all():
            return {}
        factor = float(divisors.max())
        values: dict[str, Any] = {
            "scaling": "llama3",
            "factor": factor,
            "original_length": self.integer("rope.scaling.original_context_length", 8192),
            "low_frequency_factor": 1.0,
            "high_frequency_factor": 4.0,
        }
        if divisors.min() >= 1.0 and math.isfinite(factor):
            scaled_rotary = RotarySettings(base=base, **values)
            length = self.integer("context_length")
            unscaled_frequencies = RotarySettings(base=base).frequencies(head_width, length)
            if np.allclose(
                unscaled_frequencies / scaled_rotary.frequencies(head_width, length), divisors, rtol=1e-5
            ):
                return values
        raise ModelError(
            f"{self.file.path}: {FREQUENCIES!r} changes the rotary positions differently from "
            "Llama 3, which is not supported"
        )


def _weight_table(settings: DecoderOnlySettings, architecture: Architecture) -> Table:
    """Return the table that maps weights to the tensors of a file."""
    is_tied = settings.tie_output
    weights: dict[str, tuple[View, ...]] = {
        "embedding.weight": (View(EMBEDDING),),
        "output_weight": (View(EMBEDDING if is_tied else OUTPUT),),
        "decoder_norm.weight": (View("output_norm.weight"),),
    }
    heads = {"attn_q": settings.heads, "attn_k": settings.groups} if architecture.interleaved else {}
    for layer in range(settings.layers):
        stored_prefix, prefix = f"blk.{layer}", f"decoder.{layer}"
        for name, stored_names in LAYER_MATRICES:
            for kind in ("weight", "bias"):
                weights[f"{prefix}.{name}.{kind}"] = tuple(
                    View(f"{stored_prefix}.{stored_name}.{kind}", interleaved=heads.get(stored_name, 0))
                    for stored_name in stored_names
                )
        for name, norm in LAYER_NORMS:
            weights[f"{prefix}.{name}.weight"] = (View(f"{stored_prefix}.{norm}.weight"),)
    return Table(weights, unused=(FREQUENCIES,), origin="the metadata")


def _chat_template(file: GgufFile, architecture: str) -> ChatTemplate | None:
    """Return the chat template, or None if the file has none."""
    key = "tokenizer.chat_template"
    text = file.string(key, "")
    if not text:
        return None
    tokens = file.strings("tokenizer.ggml.tokens")
    special_tokens = {
        f"{role}_token": tokens[file.integer(f"tokenizer.ggml.{name}_token_id")]
        for role, name in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if f"tokenizer.ggml.{name}_token_id" in file.metadata
    }
    model_names = (file.metadata.get(f"general.{name}") for name in ("name", "basename"))
    names = (file.path.name, *map(str, model_names), architecture)
    return ChatTemplate(text, special_tokens, choose_prompt(names).name, f"{file.path}: {key!r}")


def _model_card(file: GgufFile) -> Card:
    """Return a model card with the licence, languages and name from the metadata."""
    metadata = file.metadata
    languages = metadata.get("general.languages")
    front_matter = {
        "license": metadata.get("general.license.name", metadata.get("general.license")),
        "language": languages.decode_all() if isinstance(languages, StringArray) else languages,
    }
    lines = [
        f"{key}: {json.dumps(value)}" for key, value in front_matter.items() if isinstance(value, str | list)
    ]
    name = metadata.get("general.name")
    return Card(
        "\n".join(["---", *lines, "---", f"# {name if isinstance(name, str) else file.path.name}", ""])
    )

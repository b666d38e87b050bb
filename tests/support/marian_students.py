"""Student models in Marian's format, with random weights, and a reference implementation in numpy (M26).

Layout and equations are those of marian-dev's src/common/binary.cpp and src/models/transformer.h.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tiny_models as tiny
import yaml

from uwaga.checkpoints.formats.marian.weights import model_settings, weight_table
from uwaga.checkpoints.size_checks import weight_shapes

WIDTH, HEADS, INNER, ENCODER_LAYERS, DECODER_LAYERS = 16, 2, 24, 2, 2
INTGEMM8, INTGEMM16, FLOAT32, FLOAT16, INT8 = 0x4101, 0x4102, 0x0404, 0x0402, 0x0101
MAGIC = 0xF11A48D5013417F5
OPTIONS = {
    **{"type": "transformer", "transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"},
    **{
        "dim-emb": WIDTH,
        "enc-depth": ENCODER_LAYERS,
        "dec-depth": DECODER_LAYERS,
        "transformer-heads": HEADS,
    },
    **{"transformer-dim-ffn": INNER, "transformer-ffn-activation": "relu", "transformer-postprocess": "dan"},
    **{"transformer-preprocess": "", "transformer-postprocess-top": "", "transformer-postprocess-emb": "d"},
    **{"transformer-train-position-embeddings": False, "tied-embeddings-all": True, "version": "v1.9"},
}


@dataclass
class Student:
    """A reference model in numpy with dequantised weights in float64, by Marian's names."""

    weights: dict[str, np.ndarray]
    vocabulary: int
    shared: bool = True
    cells: list[np.ndarray] = field(default_factory=list)

    def logits(self, source: list[int], target: list[int]) -> np.ndarray:
        """Return logits (target + 1, vocabulary), before each token of the target and after the last."""
        memory = self.encode(source)
        cells = [np.zeros(WIDTH) for _ in range(DECODER_LAYERS)]
        embedded = [np.zeros(WIDTH), *(self._table("decoder")[token] for token in target)]
        return np.stack(
            [self._step(embedding, position, cells, memory) for position, embedding in enumerate(embedded)]
        )

    def encode(self, source: list[int]) -> np.ndarray:
        x = self._placed(self._table("encoder")[source], 0)
        for layer in range(1, ENCODER_LAYERS + 1):
            x = self._attend(f"encoder_l{layer}_self", x, x)
            x = self._feed_forward(f"encoder_l{layer}_ffn", x)
        return x

    def _step(self, embedded, position, cells, memory):
        x = self._placed(embedded[None], position)
        for layer in range(1, DECODER_LAYERS + 1):
            name = f"decoder_l{layer}"
            if f"{name}_aan_W1" in self.weights:
                x = self._average(f"{name}_aan", x, position, cells, layer - 1)
                x = self._attend(f"{name}_context", x, memory)
                x = self._feed_forward(f"{name}_ffn", x)
                continue
            forget = 1 / (1 + np.exp(-self._affine(x, f"{name}_rnn_Wf", f"{name}_rnn_bf")))
            cells[layer - 1] = forget * cells[layer - 1] + (1 - forget) * (x @ self.weights[f"{name}_rnn_W"])
            x = self._norm(f"{name}_rnn_ffn", x + np.maximum(cells[layer - 1], 0))
            x = self._attend(f"{name}_context", x, memory)
            x = self._feed_forward(f"{name}_ffn", x)
        return (x @ self._table("decoder").T + self.weights["decoder_ff_logit_out_b"])[0]

    def _average(self, name, x, position, cells, layer):
        cells[layer] = (cells[layer] * position + x) / (position + 1)
        hidden = self._affine(cells[layer], f"{name}_W1", f"{name}_b1")
        y = self._affine(hidden / (1 + np.exp(-hidden)), f"{name}_W2", f"{name}_b2")
        if f"{name}_Wi" in self.weights:
            gates = [
                1 / (1 + np.exp(-self._affine(z, f"{name}_W{k}", f"{name}_b{k}")))
                for z, k in ((x, "i"), (y, "f"))
            ]
            y = gates[0] * x + gates[1] * y
        return self._norm(f"{name}_ffn", x + y)

    def make_average(self, gate: bool) -> None:
        """Replace the recurrent units by average attention."""
        rng = np.random.default_rng(8)
        for layer in range(1, DECODER_LAYERS + 1):
            name = f"decoder_l{layer}"
            for part in ("W", "Wf", "bf"):
                del self.weights[f"{name}_rnn_{part}"]
            for part in ("scale", "bias"):
                self.weights[f"{name}_aan_ffn_ln_{part}"] = self.weights.pop(f"{name}_rnn_ffn_ln_{part}")
            shapes = {"1": (WIDTH, INNER), "2": (INNER, WIDTH)}
            shapes |= {"i": (WIDTH, WIDTH), "f": (WIDTH, WIDTH)} if gate else {}
            for part, shape in shapes.items():
                for kind, size in (("W", shape), ("b", shape[1])):
                    self.weights[f"{name}_aan_{kind}{part}"] = rng.normal(0, 0.3, size).astype(np.float32)

    def _table(self, side):
        return self.weights["Wemb" if self.shared else f"{side}_Wemb"]

    def _placed(self, x, first):
        half = WIDTH // 2
        rates = 10000.0 ** (-np.arange(half) / (half - 1))
        angles = (first + np.arange(len(x)))[:, None] * rates
        return WIDTH**0.5 * x + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def _affine(self, x, weight, bias):
        return x @ self.weights[weight] + self.weights[bias]

    def _norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return self.weights[f"{name}_ln_scale"] * scaled + self.weights[f"{name}_ln_bias"]

    def _attend(self, name, x, memory):
        query, key, value = (
            self._affine(states, f"{name}_W{kind}", f"{name}_b{kind}")
            .reshape(len(states), HEADS, -1)
            .swapaxes(0, 1)
            for states, kind in ((x, "q"), (memory, "k"), (memory, "v"))
        )
        scores = query @ key.swapaxes(1, 2) / np.sqrt(WIDTH / HEADS)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        context = (weights / weights.sum(-1, keepdims=True)) @ value
        joined = context.swapaxes(0, 1).reshape(len(x), WIDTH)
        return self._norm(f"{name}_Wo", x + self._affine(joined, f"{name}_Wo", f"{name}_bo"))

    def _feed_forward(self, name, x):
        inner = np.maximum(self._affine(x, f"{name}_W1", f"{name}_b1"), 0)
        return self._norm(f"{name}_ffn", x + self._affine(inner, f"{name}_W2", f"{name}_b2"))


def random_weights(vocabulary: int, shared: bool, seed: int) -> dict[str, np.ndarray]:
    """Return random weights that are large enough for outputs to depend on the source."""
    rng = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}

    def matrix(name, rows, columns, scale=0.3):
        weights[name] = rng.normal(0, scale, (rows, columns)).astype(np.float32)

    for name in ("Wemb",) if shared else ("encoder_Wemb", "decoder_Wemb"):
        matrix(name, vocabulary, WIDTH, 0.35)
    matrix("decoder_ff_logit_out_b", 1, vocabulary)
    for stack, layers in (("encoder", ENCODER_LAYERS), ("decoder", DECODER_LAYERS)):
        for layer in range(1, layers + 1):
            name = f"{stack}_l{layer}"
            attention = f"{name}_{'self' if stack == 'encoder' else 'context'}"
            norms = [f"{attention}_Wo", f"{name}_ffn_ffn"]
            for kind in "qkvo":
                matrix(f"{attention}_W{kind}", WIDTH, WIDTH)
                matrix(f"{attention}_b{kind}", 1, WIDTH)
            for number, (rows, columns) in enumerate(((WIDTH, INNER), (INNER, WIDTH)), start=1):
                matrix(f"{name}_ffn_W{number}", rows, columns)
                matrix(f"{name}_ffn_b{number}", 1, columns)
            if stack == "decoder":
                norms.append(f"{name}_rnn_ffn")
                matrix(f"{name}_rnn_W", WIDTH, WIDTH, 0.6)
                matrix(f"{name}_rnn_Wf", WIDTH, WIDTH, 0.6)
                matrix(f"{name}_rnn_bf", 1, WIDTH)
            for norm in norms:
                matrix(f"{norm}_ln_scale", 1, WIDTH)
                weights[f"{norm}_ln_scale"] += 1
                matrix(f"{norm}_ln_bias", 1, WIDTH)
    return weights


def tensors(weights: dict[str, np.ndarray], kind: str, alphas: bool):
    """Return the entries (name, number format, shape, bytes) of a file, and the weights they represent."""
    items, values = [], {}
    for name, array in weights.items():
        matrix = "_W" in name or "Wemb" in name
        quantised = kind.startswith("intgemm") and matrix and "_ln_" not in name
        if not quantised:
            half = kind == "float16"
            stored = array.astype(np.float16 if half else np.float32)
            items.append((name, FLOAT16 if half else FLOAT32, array.shape, stored.tobytes()))
            values[name] = stored.astype(np.float64)
            continue
        levels, number = (127, np.int8) if kind == "intgemm8" else (1023, np.int16)
        multiplier = np.float32(levels / np.abs(array).max())
        integers = np.rint(array * multiplier).astype(number)
        rows = integers if "Wemb" in name else integers.T
        content = np.ascontiguousarray(rows).tobytes() + multiplier.tobytes()
        items.append((name, INTGEMM8 if number is np.int8 else INTGEMM16, array.shape, content))
        values[name] = integers.astype(np.float64) / np.float64(multiplier)
        if alphas and "Wemb" not in name:
            items.append((f"{name}_QuantMultA", FLOAT32, (1, 1), np.float32(20).tobytes()))
    if alphas:
        items.append(("none_QuantMultA", FLOAT32, (1, 1), np.float32(20).tobytes()))
        items.append(("Wemb_QuantMultA", INTGEMM8, (1, 1), b"\x7f" + np.float32(6.35).tobytes()))
    return items, {
        name: array.reshape(-1) if array.shape[0] == 1 else array for name, array in values.items()
    }


def binary_model(items) -> bytes:
    """Return the content of a binary model file."""
    items = sorted(items)
    padded = [(*item[:3], item[3] + bytes(-len(item[3]) % 256)) for item in items]
    names = [name.encode() + b"\0" for name, *_ in padded]
    head = struct.pack("<QQ", 1, len(padded))
    for name, (_, kind, shape, content) in zip(names, padded, strict=True):
        head += struct.pack("<QQQQ", len(name), kind, len(shape), len(content))
    head += b"".join(names)
    for _, _, shape, _ in padded:
        head += struct.pack(f"<{len(shape)}i", *shape)
    padding = -(len(head) + 8) % 256
    return head + struct.pack("<Q", padding) + bytes(padding) + b"".join(item[3] for item in padded)


def shortlist_bytes(common: int, lists: list[list[int]]) -> bytes:
    """Return the content of a shortlist file."""
    offsets = np.cumsum([0, *map(len, lists)]).astype("<u8")
    targets = np.array([token for token_ids in lists for token in token_ids], dtype="<u4")
    body = struct.pack("<QQQQ", common, 8, len(offsets), len(targets)) + offsets.tobytes() + targets.tobytes()
    checksum, mask = 0, (1 << 64) - 1
    for (word,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8]):
        checksum ^= (word + 0x9E3779B9 + (checksum << 6) + (checksum >> 2)) & mask
    return struct.pack("<QQ", MAGIC, checksum) + body


def write_student(
    folder: Path,
    kind: str = "intgemm8",
    alphas: bool = True,
    shared: bool = True,
    common: int | None = 40,
    options: dict[str, object] | None = None,
    seed: int = 3,
) -> Student:
    """Write a folder like those of Firefox, without a shortlist if ``common`` is None."""
    folder.mkdir(parents=True, exist_ok=True)
    tokeniser = tiny.tokeniser(size=340)
    vocabulary = tokeniser.size
    items, meant = tensors(random_weights(vocabulary, shared, seed), kind, alphas)
    model_options = OPTIONS | {"dim-vocabs": [vocabulary, vocabulary]}
    if not shared:
        model_options |= {"tied-embeddings-all": False, "tied-embeddings": True}
    settings = yaml.safe_dump(model_options | (options or {})).encode() + b"\0"
    items.append(("special:model.yml", INT8, (len(settings),), settings))
    (folder / "model.ende.intgemm.alphas.bin").write_bytes(binary_model(items))
    for name in ("vocab.ende.spm",) if shared else ("srcvocab.ende.spm", "trgvocab.ende.spm"):
        (folder / name).write_bytes(tokeniser.model_bytes)
    if common is not None:
        rng = np.random.default_rng(seed)
        lists = [sorted(rng.choice(vocabulary, 6, replace=False).tolist()) for _ in range(vocabulary)]
        (folder / "lex.50.50.ende.s2t.bin").write_bytes(shortlist_bytes(common, lists))
    return Student(meant, vocabulary, shared)


def write_random(folder: Path, options: dict[str, object], seed: int = 5) -> None:
    """Write a folder with a random model that has the given options."""
    folder.mkdir(parents=True, exist_ok=True)
    tokeniser = tiny.tokeniser(size=340)
    sizes = (tokeniser.size, tokeniser.size)
    model_options = OPTIONS | {"dim-vocabs": list(sizes)} | options
    path = folder / "model.en-de.bin"
    settings, _ = model_settings(path, model_options)
    table = weight_table(path, sizes, settings, {})
    rng = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    for name, shape in weight_shapes(settings, *sizes).items():
        for view in table.weights[name]:
            part_shape = [shape[0] // len(table.weights[name]), *shape[1:]]
            if len(part_shape) == 1:
                weights[view.name] = rng.normal(0.5, 0.3, (1, *part_shape)).astype(np.float32)
            else:
                weights[view.name] = rng.normal(
                    0, 0.3, part_shape[::-1] if view.transposed else part_shape
                ).astype(np.float32)
    items, _ = tensors(weights, "float32", False)
    stored = yaml.safe_dump(model_options).encode() + b"\0"
    items.append(("special:model.yml", INT8, (len(stored),), stored))
    path.write_bytes(binary_model(items))
    (folder / "vocab.ende.spm").write_bytes(tokeniser.model_bytes)

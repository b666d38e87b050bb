"""The weights and options of a recurrent model on the engine, from its settings (M11 to M15)."""

from __future__ import annotations

from collections.abc import Iterator

from uwaga.engine.product import Product, embedding_tables
from uwaga.settings.recurrent import (
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    RecurrentSettings,
    SutskeverSettings,
)

FAMILIES = {"cho": 1, "sutskever": 2, "bahdanau": 3, "luong": 4, "gnmt": 5}
"""Values of ``Family`` in native/recurrent/network.h."""
SCORES = {
    "dot": 1,
    "scaled_dot": 1,
    "general": 1,
    "additive": 2,
    "additive_joint": 2,
    "concat": 2,
    "location": 3,
}
"""Values of ``Score`` there, by name."""
LOCALITIES = {"global": 0, "local-m": 1, "local-p": 2}
"""Values of ``Locality`` there, by ``attention`` of Luong's models."""

AttentionSettings = BahdanauSettings | LuongSettings | GnmtSettings
"""Settings of models with attention."""


def recurrent_refusal(settings: RecurrentSettings) -> str | None:
    """Return the end of a message, or None; see :func:`uwaga.engine.layout.engine_refusal`."""
    if isinstance(settings, AttentionSettings) and settings.score not in SCORES:
        return f"attention with the scores {', '.join(SCORES)}, not score: {settings.score}"
    return None


def recurrent_shape(settings: RecurrentSettings) -> dict[str, float]:
    """Return the sizes and options of the core's model."""
    encoder_layers, decoder_layers = _layers(settings)
    shape: dict[str, float] = {
        "family": FAMILIES[_family(settings)],
        "embedding": settings.embedding,
        "hidden": settings.hidden,
        "features": settings.features,
        "max_length": settings.max_length,
        "encoder_layers": encoder_layers,
        "decoder_layers": decoder_layers,
        "bidirectional": int(_bidirectional(settings)),
        "reverse": int(getattr(settings, "reverse", False)),
        "gru_paper": int(getattr(settings, "gru", "fused") == "paper"),
        "conditional": int(isinstance(settings, BahdanauSettings) and settings.decoder == "conditional"),
        "input_feeding": int(isinstance(settings, LuongSettings) and settings.input_feeding),
        "score": 0,
    }
    if isinstance(settings, AttentionSettings):
        shape["score"] = SCORES[settings.score]
        shape["prepared_keys"] = int(settings.score == "general")
        shape["score_scale"] = settings.hidden**-0.5 if settings.score == "scaled_dot" else 1.0
        shape["locality"] = LOCALITIES[settings.attention] if isinstance(settings, LuongSettings) else 0
    if isinstance(settings, LuongSettings) and settings.window is not None:
        shape["window"] = settings.window
    return shape


def recurrent_products(settings: RecurrentSettings, source: int, target: int) -> Iterator[Product]:
    """Yield the matrices of a model with these vocabulary sizes."""
    yield from _encoder(settings)
    yield from _decoder(settings)
    if isinstance(settings, AttentionSettings):
        yield from _score(settings)
    if isinstance(settings, LuongSettings) and settings.attention == "local-p":
        yield _square("window.inner", settings.hidden, bias=False)
    yield Product("output", ("output_weight",), (target,), settings.features, False)
    yield from embedding_tables(
        settings.tie, {"source_embedding": source, "target_embedding": target}, settings.embedding
    )


def recurrent_vectors(settings: RecurrentSettings, target: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the stored tensors that are not matrices, by name."""
    shapes: dict[str, tuple[int, ...]] = {"output_bias": (target,)}
    if isinstance(settings, AttentionSettings) and SCORES[settings.score] == SCORES["additive"]:
        shapes["score.vector"] = (settings.hidden,)
    if isinstance(settings, LuongSettings) and settings.attention == "local-p":
        shapes["window.vector"] = (settings.hidden,)
    return shapes


def memory_width(settings: RecurrentSettings) -> int:
    """Return the number of values in the memory per source token."""
    if not isinstance(settings, AttentionSettings):
        return 0
    unprepared = settings.score in ("dot", "scaled_dot", "location")
    return _annotations(settings) + (0 if unprepared else settings.hidden)


def _family(settings: RecurrentSettings) -> str:
    return str(getattr(settings, "family", ""))


def _layers(settings: RecurrentSettings) -> tuple[int, int]:
    if isinstance(settings, SutskeverSettings | LuongSettings):
        return settings.layers, settings.layers
    if isinstance(settings, GnmtSettings):
        return settings.encoder_layers, settings.decoder_layers
    return 1, 2 if isinstance(settings, BahdanauSettings) and settings.decoder == "conditional" else 1


def _bidirectional(settings: RecurrentSettings) -> bool:
    if isinstance(settings, LuongSettings):
        return settings.bidirectional
    return isinstance(settings, BahdanauSettings | GnmtSettings)


def _annotations(settings: AttentionSettings) -> int:
    """Return the width of the annotations."""
    return 2 * settings.hidden if isinstance(settings, BahdanauSettings) else settings.hidden


def _unit(name: str, stored: str, inputs: int, units: int, gates: int, paper: bool = False) -> list[Product]:
    """Return the matrices of a recurrent layer; with ``paper``, the candidate reads the reset state."""
    matrix = f"{stored}.layer.weight_hh_l0"
    products = [Product(f"{name}.inputs", (f"{stored}.layer.weight_ih_l0",), (gates * units,), inputs, True)]
    if not paper:
        return [*products, Product(f"{name}.states", (matrix,), (gates * units,), units, True)]
    stored_shape = (gates * units, units)
    return [
        *products,
        Product(f"{name}.states", (matrix,), (2 * units,), units, True, stored_shape),
        Product(f"{name}.candidate", (matrix,), (units,), units, True, stored_shape, first=2 * units),
    ]


def _square(name: str, units: int, bias: bool) -> Product:
    return Product(name, (name,), (units,), units, bias)


def _encoder(settings: RecurrentSettings) -> Iterator[Product]:
    embedding, units = settings.embedding, settings.hidden
    if isinstance(settings, ChoSettings):
        yield from _unit("encoder.0.ahead", "encoder", embedding, units, 3, settings.gru == "paper")
    elif isinstance(settings, BahdanauSettings):
        for side, stored in (("ahead", "forward_encoder"), ("back", "backward_encoder")):
            yield from _unit(f"encoder.0.{side}", stored, embedding, units, 3, settings.gru == "paper")
    elif isinstance(settings, GnmtSettings):
        for side in ("ahead", "back"):
            yield from _unit(f"encoder.0.{side}", side, embedding, units, 4)
        for layer in range(1, settings.encoder_layers):
            width = 2 * units if layer == 1 else units
            yield from _unit(f"encoder.{layer}.ahead", f"encoder.layers.{layer - 1}", width, units, 4)
    elif isinstance(settings, SutskeverSettings | LuongSettings):
        bidirectional = _bidirectional(settings)
        for layer in range(settings.layers):
            width = units if layer else embedding
            for side in ("ahead", "back") if bidirectional else ("ahead",):
                stored = f"encoder.{side if bidirectional else 'layers'}.{layer}"
                yield from _unit(f"encoder.{layer}.{side}", stored, width, units // (1 + bidirectional), 4)


def _decoder(settings: RecurrentSettings) -> Iterator[Product]:
    embedding, units = settings.embedding, settings.hidden
    if isinstance(settings, ChoSettings):
        yield from (_square("summary", units, bias=True), _square("bridge", units, bias=True))
        inputs, states = _unit("decoder.0", "decoder", embedding, units, 3)
        stored_shape = (3 * units, embedding + units)
        yield Product(inputs.name, inputs.parts, (3 * units,), embedding, True, stored_shape)
        yield Product(
            "decoder.0.beside", inputs.parts, (3 * units,), units, False, stored_shape, column=embedding
        )
        yield states
        yield _read_out(settings, units)
    elif isinstance(settings, BahdanauSettings):
        paper, width = settings.gru == "paper", _annotations(settings)
        yield _square("bridge", units, bias=True)
        if settings.decoder == "conditional":
            yield from _unit("decoder.0", "inner", embedding, units, 3, paper)
            yield from _unit("decoder.1", "decoder", width, units, 3, paper)
        else:
            yield from _unit("decoder.0", "decoder", embedding + width, units, 3, paper)
        yield _read_out(settings, width)
    elif isinstance(settings, GnmtSettings):
        yield from _unit("decoder.0", "bottom", embedding + units, units, 4)
        for layer in range(1, _layers(settings)[1]):
            yield from _unit(f"decoder.{layer}", f"upper.layers.{layer - 1}", 2 * units, units, 4)
    elif isinstance(settings, SutskeverSettings | LuongSettings):
        feedback = units if isinstance(settings, LuongSettings) and settings.input_feeding else 0
        for layer in range(settings.layers):
            width = units if layer else embedding + feedback
            yield from _unit(f"decoder.{layer}", f"decoder.layers.{layer}", width, units, 4)
        if isinstance(settings, LuongSettings):
            yield Product("combine", ("combine",), (units,), 2 * units, False)


def _read_out(settings: ChoSettings | BahdanauSettings, context: int) -> Product:
    inputs = settings.hidden + settings.embedding + context
    return Product("read_out", ("read_out.inner",), (2 * settings.read_out,), inputs, True)


def _score(settings: AttentionSettings) -> Iterator[Product]:
    units, width = settings.hidden, _annotations(settings)
    if settings.score == "general":
        yield Product("score.key", ("score.weight.weight",), (units,), width, False)
    elif settings.score == "additive":
        yield Product("score.key", ("score.key",), (units,), width, False)
        yield Product("score.query", ("score.query",), (units,), units, False)
    elif settings.score in ("additive_joint", "concat"):
        joint = settings.score == "additive_joint"  # W [h; s], and of concat W [s; h]
        stored = "score.weight.weight" if joint else "score.weight"
        stored_shape = (units, width + units)
        keys, queries = (0, width) if joint else (units, 0)
        yield Product("score.key", (stored,), (units,), width, False, stored_shape, column=keys)
        yield Product("score.query", (stored,), (units,), units, False, stored_shape, column=queries)
    elif settings.score == "location":
        yield Product("score.query", ("score.weight.weight",), (settings.max_length,), units, False)

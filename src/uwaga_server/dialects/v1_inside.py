"""``/v1/inside``: return the internals of a translation, optionally with attention interventions.

The data structures are those of the npm package (``web/src/types.ts``), so that the laboratories of the web
page and of the course can share their code.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, create_model
from starlette.requests import Request
from starlette.responses import Response

from uwaga.engine.interventions import Heads, Intervention, Kind, Positions, Replacement
from uwaga.engine.layout import Sizes
from uwaga.errors import SettingsError
from uwaga.inspection.trace import Trace, TracedTranslation, TraceParts, native_transformer, trace
from uwaga.results.attention import Floats
from uwaga.search import SearchOverrides
from uwaga.settings import TransformerSettings
from uwaga.translator import Translator
from uwaga.translator.request import Request as TextRequest
from uwaga_server.context import BEARER_KEY, ServerContext
from uwaga_server.dialects.v1_schema import STRICT_CONFIG, Integral, LanguageCode, search_fields
from uwaga_server.http import json_response, read_json, while_connected
from uwaga_server.routing import Routes

MAX_BYTES = 16 << 20
"""Maximum number of bytes of all arrays in a response, before they are encoded in base64."""
MAX_EDITS = 64
"""Maximum number of interventions in a request."""
MAX_ABSOLUTE_WEIGHT = 1e6
"""Maximum absolute value of an attention weight or a scale in an intervention."""
SEARCH_OPTIONS = (
    "beam",
    "nbest",
    "length_penalty",
    "length_formula",
    "early_stopping",
    "min_length",
    "max_length",
    "max_ratio",
    "max_extra",
    "sample",
    "temperature",
    "top_k",
    "top_p",
    "seed",
)
"""Search options that a request may set."""

Weight = Annotated[float, Field(ge=-MAX_ABSOLUTE_WEIGHT, le=MAX_ABSOLUTE_WEIGHT)]
OneBasedNumber = Annotated[int, Field(ge=1, le=4096), Integral]


class HeadsEdit(BaseModel):
    """An intervention in attention heads."""

    model_config = STRICT_CONFIG
    kind: Kind = "cross"
    layer: OneBasedNumber | None = Field(
        None, description="Number of the layer, from 1; all layers if omitted."
    )
    head: OneBasedNumber | None = Field(None, description="Number of the head, from 1; all heads if omitted.")
    weights: Replacement | list[list[Weight]] | list[list[list[Weight]]] | None = Field(
        None,
        description="Attention weights that replace those of the model: `silent`, `alone`, `uniform`, "
        "`diagonal`, or numbers with shape (queries, keys) or (heads, queries, keys).",
    )
    mask: list[list[bool]] | list[list[list[bool]]] | None = Field(
        None,
        description="True where a query may attend to a key, with shape (queries, keys) or (heads, queries, "
        "keys).",
    )
    scale: Weight | None = Field(
        None, description="Scaling factor of the attention scores that replaces that of the model."
    )

    def intervention(self) -> Intervention:
        """Return the intervention as an object of :mod:`uwaga.inspection`."""
        weights = self.weights
        return Heads(
            self.kind,
            self.layer,
            self.head,
            weights
            if weights is None or isinstance(weights, str)
            else _edit_array("weights", weights, np.float32),
            None if self.mask is None else _edit_array("mask", self.mask, np.bool_),
            self.scale,
        )


class PositionsEdit(BaseModel):
    """An intervention that changes the positions of the first source or target tokens."""

    model_config = STRICT_CONFIG
    side: Literal["source", "target"]
    places: list[Annotated[int, Field(ge=0, le=1 << 20), Integral]] = Field(
        max_length=4096, description="Position of each token, from 0."
    )

    def intervention(self) -> Intervention:
        """Return the intervention as an object of :mod:`uwaga.inspection`."""
        return Positions(self.side, tuple(self.places))


class InsideFields(BaseModel):
    """Fields of a request for the internals of a translation, except the search options."""

    model_config = STRICT_CONFIG | {
        "json_schema_extra": {
            "examples": [
                {"text": "A man sleeps.", "source": "en", "target": "de", "insight": ["cross.2.weights"]}
            ]
        }
    }
    text: str = Field(description="The text, translated as one sentence.")
    target: LanguageCode = Field(description="Language to translate to.")
    source: LanguageCode | None = Field(None, description="Language of the text; detected if omitted.")
    forced: str | None = Field(
        None, description="A translation that the decoder is forced to produce, with a beam of 1."
    )
    edits: list[HeadsEdit | PositionsEdit] = Field(
        [], max_length=MAX_EDITS, description="Interventions in attention heads and positions, in order."
    )
    attention: bool = Field(False, description="Return all attention matrices.")
    insight: list[Annotated[str, Field(max_length=64)]] | None = Field(
        None,
        max_length=64,
        description="Return those internal activations whose names begin with these strings, such as "
        "`cross.2`, for the best translation; an empty list returns all.",
    )
    tree: bool = Field(False, description="Return the search tree: the candidates of all search steps.")
    steps: Annotated[int, Field(ge=0, le=64), Integral] = Field(
        0, description="Number of candidates to return for each step of the best translation."
    )

    def search_options(self) -> SearchOverrides:
        """Return the requested search options; the beam is at least as large as ``nbest``."""
        options = {name: getattr(self, name) for name in SEARCH_OPTIONS if name in self.model_fields_set}
        options = {name: value for name, value in options.items() if value is not None}
        if "nbest" in options and not options.get("sample"):
            options["beam"] = max(options.get("beam", 1), options["nbest"])
        return {"sample": False, **options}


if TYPE_CHECKING:
    InsideBody = InsideFields
else:
    InsideBody = create_model(
        "InsideBody",
        __base__=InsideFields,
        __doc__="A request for the internals of a translation.",
        **{name: field for name, field in search_fields().items() if name in SEARCH_OPTIONS},
    )


class ArrayAnswer(BaseModel):
    """An array: its shape, and its values as little-endian float32 in row-major order, in base64."""

    shape: list[int]
    data: str


class InsideTranslation(BaseModel):
    """A translation; in `log_probs`, null stands for minus infinity."""

    text: str
    score: float | None
    truncated: bool
    tokens: list[int]
    pieces: list[str]
    log_probs: list[float | None]
    attention: dict[Kind, ArrayAnswer] | None = None
    insight: dict[str, ArrayAnswer] | None = None


class InsideSource(BaseModel):
    """The source text, with its tokens and the end symbol."""

    text: str
    tokens: list[int]
    pieces: list[str]


class StepCandidate(BaseModel):
    """A candidate token of a search step."""

    token: int
    log_prob: float | None


class InsideModel(BaseModel):
    """The name, languages and sizes of a model.

    `decoder_attention` is false if the decoder has a recurrence instead of self-attention. `end` is the id of
    the end symbol.
    """

    name: str
    source_language: str
    target_language: str
    encoder_layers: int
    encoder_heads: int
    decoder_layers: int
    decoder_heads: int
    decoder_attention: bool
    end: int


class InsideAnswer(BaseModel):
    """The internals of a translation; `vocabulary` maps the ids of target tokens to their pieces."""

    source: InsideSource
    candidates: list[InsideTranslation]
    tree: ArrayAnswer | None = None
    steps: list[list[StepCandidate]] | None = None
    vocabulary: dict[str, str]
    model: InsideModel


def add_inside_route(context: ServerContext, routes: Routes) -> None:
    """Add the route ``/inside`` to the routes of the dialect."""

    @routes.add("POST", "/inside", "Look inside a translation", body=InsideBody, response_model=InsideAnswer)
    async def inside(request: Request) -> Response:
        """Translate a text as one sentence and return internals of the translation.

        The response contains all beam hypotheses and, if requested, the search tree, the candidates of each
        step, the attention matrices and internal activations. `edits` are interventions in the attention and
        the positions.

        Only a single encoder-decoder Transformer on the native engine can be inspected; other models are
        refused with the code `not_inspectable`.
        """
        client = BEARER_KEY.admit(context, request)
        body = await read_json(request, InsideBody)
        characters = context.admit_texts(client, [body.text, body.forced or ""])
        text_request = TextRequest(body.text, source=body.source, target=body.target)
        deadline = context.settings.limits.deadline

        def inspect_translation(
            name: str, source: str, target: str, translator: Translator
        ) -> dict[str, object]:
            return _inside_response(body, translator, name, source, target)

        async with context.charge_or_refund(client, characters), while_connected(request):
            answer = await context.service.inspect(
                text_request, inspect_translation, client=client.name, deadline=deadline
            )
        return json_response(answer)


def _inside_response(
    body: InsideFields, translator: Translator, name: str, source: str, target: str
) -> dict[str, object]:
    """Trace a translation and return the response as JSON."""
    model = native_transformer(translator)
    translation_trace = trace(
        translator,
        body.text,
        body.forced,
        edits=[edit.intervention() for edit in body.edits],
        options=translator.options(**body.search_options()),
        parts=TraceParts(body.attention, body.insight, body.tree, body.steps, MAX_BYTES),
    )
    settings = model.settings
    assert isinstance(settings, TransformerSettings)
    sizes = Sizes.from_settings(settings)
    answer: dict[str, object] = {
        "source": {
            "text": body.text,
            "tokens": list(translation_trace.source),
            "pieces": list(translation_trace.source_pieces),
        },
        "candidates": [
            _translation_response(translation, body) for translation in translation_trace.translations
        ],
        "vocabulary": _target_pieces(translation_trace, translator, model.symbols.end),
        "model": {
            "name": name,
            "source_language": source,
            "target_language": target,
            "encoder_layers": sizes.encoder_layers,
            "encoder_heads": settings.heads,
            "decoder_layers": sizes.decoder_layers,
            "decoder_heads": sizes.decoder_heads,
            "decoder_attention": settings.self_attention == "attention",
            "end": model.symbols.end,
        },
    }
    if translation_trace.tree is not None:
        answer["tree"] = _array_response(translation_trace.tree)
    if body.steps:
        answer["steps"] = [
            [{"token": token, "log_prob": log_prob} for token, log_prob in step]
            for step in translation_trace.steps
        ]
    return answer


def _translation_response(translation: TracedTranslation, body: InsideFields) -> dict[str, object]:
    content: dict[str, object] = {
        "text": translation.text,
        "score": translation.score,
        "truncated": translation.truncated,
        "tokens": list(translation.tokens),
        "pieces": list(translation.pieces),
        "log_probs": list(translation.log_probs),
    }
    if translation.attentions is not None:
        matrices = {
            kind: matrix for kind, matrix in vars(translation.attentions).items() if matrix is not None
        }
        content["attention"] = {kind: _array_response(matrix) for kind, matrix in matrices.items()}
    if body.insight is not None:
        content["insight"] = {name: _array_response(array) for name, array in translation.arrays.items()}
    return content


def _target_pieces(translation_trace: Trace, translator: Translator, end: int) -> dict[str, str]:
    """Return the pieces of all target tokens that a response contains, by token id."""
    tokens = {end, *(token for step in translation_trace.steps for token, _ in step)}
    for translation in translation_trace.translations:
        tokens.update(translation.tokens)
    if translation_trace.tree is not None:
        tokens.update(map(int, np.unique(translation_trace.tree[:, 1])))
    sorted_tokens = sorted(tokens)
    return dict(zip(map(str, sorted_tokens), translator.target.pieces(sorted_tokens), strict=True))


def _array_response(values: Floats) -> dict[str, object]:
    data = np.ascontiguousarray(values, dtype="<f4").tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(data).decode("ascii")}


def _edit_array(name: str, rows: list[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Return nested lists of an intervention as an array.

    Args:
        name: the name of the field, for the error message.
        rows: the nested lists.
        dtype: the type of the array.
    """
    try:
        return np.array(rows, dtype=dtype)
    except ValueError:
        raise SettingsError(
            f"{name}: the rows differ in length; the shape must be (queries, keys) or (heads, queries, keys)"
        ) from None

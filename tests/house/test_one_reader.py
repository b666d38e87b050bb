"""Names in model files are read either by Python or by the native core, except for the listed names."""

import ast
import json
import re
from pathlib import Path

import pytest

from uwaga.engine import _core
from uwaga.settings import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "native" / "checkpoints"
READERS = ("checkpoints/formats/uwaga", "checkpoints/formats/marian", "engine")
PACKAGES = [ROOT / "src" / "uwaga" / name for name in READERS]
NAME = re.compile(r"[A-Za-z_:.-][\w:.-]{2,}")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
CONFIG = {
    *("bytes", "decoding", "end", "format", "frame", "joint", "kept", "languages", "levels", "model"),
    *("normalisation", "pad", "search", "sha256", "source", "start", "symbols", "target", "text"),
    *("tokenisers", "unknown", "usual_score", "version", "vocabulary", "weights", "marian", "uwaga"),
    *("banned", "early_stopping", "max_ratio"),
    *("config.json", "model.safetensors", "engine.safetensors", "source.spm", "target.spm"),
}
"""Keys of ``config.json`` around the group ``model``, and files of uwaga's folders.

Python writes them, and its schema has what the core does not read, such as chat templates."""
FRAME = {
    *("clean", "lstrip", "numbered", "prefix", "rstrip", "selected", "special", "strip", "suffix", "tasks"),
    *("tokens", "source.vocab.json"),
}
"""Keys of ``config.json`` for tokenisers of multilingual models, for which Python has its own codecs."""
SETTINGS = {
    *("aan", "after", "both", "dot", "embeddings", "family", "global_every", "halves", "interleaved"),
    *(
        "key_value_heads", "learned", "logit_cap", "positions", "relative", "rotary", "scaled_dot",
        "score_cap",
    ),
    *("self_attention", "sinusoidal", "tensor2tensor", "transformer", "window"),
}  # fmt: skip
"""Settings that the engine's Python code uses: tables of positions, options of decoder-only models."""
ENGINE = {
    *("_positions", "_positions.weight", "_relative_bias", "positions.weight", "decoder_scale"),
    *(".bias", "output.bias", "output_bias", "source_embedding", "target_embedding"),
    *("shared_width", "source_vocabulary", "target_vocabulary", "threads"),
}
"""Parameters of the model in the native core, and vectors for its tables of positions."""
WORDS = {
    *("attention", "bfloat16", "decoder", "encoder", "estimate", "first", "float32", "int4", "int8"),
    *("location", "none", ".npz", ".spm"),
}
"""Words that are not names of a schema, or have different meanings in Python and in the core."""


def core_names():
    """Return the names in string literals of the native core's reading functions."""
    names = set()
    for path in [*CORE.glob("*.cpp"), *CORE.glob("*.h")]:
        code = re.sub(r"//[^\n]*|#include[^\n]*", "", path.read_text(encoding="utf-8"))
        names |= {literal for literal in LITERAL.findall(code) if NAME.fullmatch(literal)}
    return names


def python_names():
    """Return the names in strings and class fields of the Python packages."""
    names = set()
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        comments = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in comments:
                names.add(node.value)
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "StrictModel" for base in node.bases
            ):
                names |= {field.target.id for field in node.body if isinstance(field, ast.AnnAssign)}
    return names


def test_names_read_by_both_python_and_the_native_core_are_listed():
    """Names still read by both are listed above, and these lists should only become shorter."""
    assert core_names() & python_names() == CONFIG | FRAME | SETTINGS | ENGINE | WORDS


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"prophetnet"}))
def test_setting_defaults_of_the_native_core_and_the_schema_are_equal(family):
    """Settings that a folder omits have the same defaults in the core as in the schema."""
    stated, unstated = FAMILIES[family]().model_dump_json(), json.dumps({"family": family})
    assert _core.matrices(stated, 23, 23, "a") == _core.matrices(unstated, 23, 23, "b")
    assert _core.vectors(stated, 23, "a") == _core.vectors(unstated, 23, "b")
    assert _core.shape(stated, False) == _core.shape(unstated, False)

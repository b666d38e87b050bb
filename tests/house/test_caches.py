"""Function caches have a maximum size, and store no strings of arbitrary length from requests."""

import ast
import gc
import sys
from pathlib import Path

from uwaga.languages import codes
from uwaga.languages.names import language_name
from uwaga.tokenizers.sentences import split_sentences
from uwaga_server.served_models import ServedLanguages

SOURCE = Path(__file__).parents[2] / "src"
BOUNDS = {
    "uwaga/alignment/piece_spans.py:_byte_letters": "no argument",
    "uwaga/alignment/piece_spans.py:_decompose": "one character",
    "uwaga/alignment/piece_spans.py:_surface": "pieces of vocabularies",
    "uwaga/conversion/quantise.py:bundled_sentences": "no argument",
    "uwaga/languages/codes.py:_base_language": "at most 32 characters",
    "uwaga/languages/codes.py:character_script": "one character",
    "uwaga/languages/detection.py:_load_identifier": "no argument",
    "uwaga/languages/function_words.py:_pattern": "32 codes of languages",
    "uwaga/languages/number_words.py:_load_vocabulary": "6 languages",
    "uwaga/results/views.py:_pack_phrases": "no argument",
    "uwaga/results/views.py:_read_file": "files of the package",
    "uwaga/search/decoder_batch.py:_rules": "64 sets of options, which hold numbers",
    "uwaga/terms/apply.py:count_occurrences": "lives as long as a call",
    "uwaga/tokenizers/chat_template.py:_render_in_process": "32 templates, messages of 65,536 characters",
    "uwaga/tokenizers/sentences.py:_end_pattern": "marks of the table of languages",
    "uwaga/translator/split.py:ids": "lives as long as a call",
    "uwaga_corpora/cleaning/pairs.py:character_bits": "no argument",
    "uwaga_corpora/cleaning/pairs.py:digit_values": "no argument",
    "uwaga_corpora/cleaning/pairs.py:script_letters": "scripts of the table of languages",
    "uwaga_corpora/cleaning/pairs.py:unstable_characters": "no argument",
    "uwaga_corpora/cleaning/rules/content.py:_misread_continuations": "no argument",
    "uwaga_course/exercises.py:all_exercises": "no argument",
    "uwaga_course/translations.py:read_texts": "files of the package",
    "uwaga_memory/similarity.py:find_stemmer": "32 languages",
    "uwaga_server/app.py:document": "no argument",
    "uwaga_server/dialects/libretranslate.py:document": "no argument",
}
"""Functions with a cache, and the reason why the size of their keys is bounded."""
CACHES = {"cache", "lru_cache"}


def cached_functions() -> set[str]:
    functions: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "cache" in text else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                decorators = [
                    item.func if isinstance(item, ast.Call) else item for item in node.decorator_list
                ]
                names = {ast.unparse(decorator).rpartition(".")[2] for decorator in decorators}
                if names & CACHES:
                    functions.add(f"{path.relative_to(SOURCE)}:{node.name}")
    return functions


def test_all_cached_functions_are_listed_with_their_bounds():
    assert cached_functions() == set(BOUNDS)


def test_function_caches_do_not_store_long_strings():
    functions = (
        codes.base_language,
        lambda text: codes.same_language(text, "de"),
        codes.with_region,
        codes.language_scripts,
        language_name,
        ServedLanguages([]).resolve,
        lambda text: split_sentences(text, "en"),
        lambda text: split_sentences("A dog. A cat.", text),
    )
    texts = ["中" * 100_000 + str(number) for number in range(len(functions))]
    references = list(map(sys.getrefcount, texts))
    for function, text in zip(functions, texts, strict=True):
        for _ in range(3):
            function(text)
    del text
    gc.collect()
    assert list(map(sys.getrefcount, texts)) == references

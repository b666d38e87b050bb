"""What a model should not be asked to translate, and how a translation shows that it is none."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from uwaga.checkpoints.usual import UsualScore
from uwaga.contracts import Hypothesis
from uwaga.text.language_codes import base_language

ADDRESS = re.compile(r"(?:https?://|ftp://|www\.)\S+|(?:mailto:)?[^\s@]+@[^\s@]+\.[^\s@.]+", re.IGNORECASE)
UNNAMED = frozenset({"", "src", "tgt", "und"})

LONGEST_PERIOD = 12
LEAST_TURNS, LEAST_REPEATED = 4, 12
"""A loop is the same tokens that many times on end, and that many tokens in all."""
FEWEST_AGAIN = min(
    max(LEAST_TURNS * period, LEAST_REPEATED) - period for period in range(1, LONGEST_PERIOD + 1)
)
"""As many tokens of a loop at least have stood before."""

UNLIKE = "unlike what the model knows"
"""How the warnings about a text that the model was not made for begin."""

ROMAN = (
    "en de fr es it pt nl sv da no nb nn fi et lv lt pl cs sk sl hr ro hu "
    "tr sq is ga id ms vi tl ca gl eu mt cy af sw eng deu fra spa ita por nld pol ces"
)
"""Languages in Latin letters."""
LATIN, CYRILLIC, ARABIC, DEVANAGARI = ("LATIN",), ("CYRILLIC",), ("ARABIC",), ("DEVANAGARI",)
HAN = ("CJK", "IDEOGRAPHIC", "KANGXI", "BOPOMOFO")
SCRIPTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(ROMAN.split(), LATIN),
    **dict.fromkeys(["ru", "uk", "bg", "be", "mk", "rus", "ukr", "bul", "bel", "mkd"], CYRILLIC),
    **dict.fromkeys(["ar", "fa", "ur", "ps", "ug", "ckb", "ara", "arb", "fas", "pes", "urd"], ARABIC),
    **dict.fromkeys(["hi", "mr", "ne", "sa", "hin", "mar", "npi"], DEVANAGARI),
    **dict.fromkeys(["zh", "yue", "zho", "cmn"], HAN),
    **dict.fromkeys(["ja", "jpn"], (*HAN, "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA")),
    **dict.fromkeys(["ko", "kor"], ("HANGUL", *HAN)),
    **dict.fromkeys(["el", "ell"], ("GREEK",)),
    **dict.fromkeys(["he", "yi", "heb"], ("HEBREW",)),
    **dict.fromkeys(["ka", "kat"], ("GEORGIAN",)),
    **dict.fromkeys(["hy", "hye"], ("ARMENIAN",)),
    **dict.fromkeys(["bn", "as", "ben", "asm"], ("BENGALI",)),
    **dict.fromkeys(["ta", "tam"], ("TAMIL",)),
    **dict.fromkeys(["te", "tel"], ("TELUGU",)),
    **dict.fromkeys(["th", "tha"], ("THAI",)),
    **dict.fromkeys(["am", "ti", "amh", "tir"], ("ETHIOPIC",)),
}
"""How Unicode's names of a language's letters begin; a language that is not here is not checked."""


def translates(languages: tuple[str, str]) -> bool:
    """Whether a model is known to go from one language to another."""
    source, target = map(base_language, languages)
    return source != target and source not in UNNAMED and target not in UNNAMED


def is_copied(text: str) -> bool:
    """Whether a text is the same in every language: it has no letter, or is one address or e-mail address."""
    text = text.strip()
    return not any(map(str.isalpha, text)) or ADDRESS.fullmatch(text) is not None


def unlike_language(text: str, language: str) -> str | None:
    """A warning where most letters of a text are not of the language's script, None where they are."""
    wanted = SCRIPTS.get(base_language(language))
    if wanted is None or (wanted == LATIN and text.isascii()):
        return None
    found = [script for script in map(script_of, text) if script]
    strange = [script for script in found if script not in wanted]
    if 2 * len(strange) <= len(found):
        return None
    most = max(sorted(set(strange)), key=strange.count)
    return f"{UNLIKE}: letters of {most.title()}, where its source language is {language!r}"


@lru_cache(1 << 16)
def script_of(character: str) -> str:
    """How Unicode's name of a letter begins, empty for what is no letter."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def loops(tokens: Sequence[int]) -> bool:
    """Whether the same few tokens follow each other again and again."""
    if len(tokens) - len(set(tokens)) < FEWEST_AGAIN:
        return False
    return any(
        _longest_run(tokens, period) + period >= max(LEAST_TURNS * period, LEAST_REPEATED)
        for period in range(1, min(LONGEST_PERIOD, len(tokens) // LEAST_TURNS) + 1)
    )


def _longest_run(tokens: Sequence[int], period: int) -> int:
    """Most tokens on end that equal the one ``period`` before them."""
    longest = run = 0
    for before, token in zip(tokens, tokens[period:], strict=False):
        run = run + 1 if before == token else 0
        longest = max(longest, run)
    return longest


def warnings_of(
    sources: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis], usual: UsualScore | None
) -> list[str]:
    """What makes the translations of a text's sentences doubtful, each once.

    Args:
        sources: tokens of each sentence.
        hypotheses: its translation.
        usual: what the model's scores usually are.
    """
    found = []
    if any(loops(one.tokens) and not loops(ids) for ids, one in zip(sources, hypotheses, strict=True)):
        found.append("the translation repeats itself again and again; no_repeat_ngram 3 would forbid it")
    means = [mean_score(one) for one in hypotheses if one.token_scores]
    if usual is not None and means and min(means) < usual.low:
        found.append(
            f"{UNLIKE}: {min(means):.2f} per token, where its translations usually have {usual.mean:.2f} "
            f"and 99 of 100 at least {usual.low:.2f}"
        )
    return found


def mean_score(hypothesis: Hypothesis) -> float:
    """The log-probability of a hypothesis per token, end symbol counted."""
    return hypothesis.log_prob / max(1, len(hypothesis.token_scores))

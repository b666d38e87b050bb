"""A text that grows: its last translation as the draft against translating it from nothing (M42).

    python benchmarks/growing.py           # 200 captions of Multi30k, the bundled model, one thread
    python benchmarks/growing.py --sentences 50 --text my.txt --model FOLDER --json growing.json

Each sentence is revealed word by word, and every beginning is translated: from nothing, and with the last
translation as the draft, without a bias, with one, and with one while the last word is not shown. A draft
that is right, the translation itself, shows the most that a draft can save. The ways take turns at each
sentence. Passes are those of the decoder. The erasure is the number of shown words that
are taken back, for each word of the last translation (Arivazhagan et al. 2020, section 3.2); BLEU is that of
the last translations. Translations without a bias must equal those from nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from pathlib import Path

from uwaga import Translation, Translator

DATA = Path(__file__).resolve().parents[1] / "../shared/data/multi30k"


@dataclass
class Way:
    """A way to translate a text that grows, and what it has taken; a bias of None is from nothing."""

    bias: float | None
    mask: int = 0
    right: bool = False  # the draft is the translation itself
    passes: int = 0
    seconds: float = 0.0
    erasure: float = 0.0
    last: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.bias is None:
            return "from nothing"
        if self.right:
            return "a right draft"
        return f"bias {self.bias:g}" + (f", {self.mask} hidden" if self.mask else "")

    def grow(
        self, translator: Translator, beginnings: Sequence[str], answers: Sequence[Translation] = ()
    ) -> list[Translation]:
        """Translate the beginnings of a sentence in turn; ``answers`` are their translations from nothing."""
        made: list[Translation] = []
        begun = time.process_time()
        for at, text in enumerate(beginnings):
            if self.bias is None:
                made.append(translator.translate(text, beam=1))
            else:
                previous = answers[at] if self.right else made[-1] if made else ""
                made.append(translator.retranslate(text, previous, bias=self.bias, mask=self.mask))
        self.seconds += time.process_time() - begun
        self.passes += sum(one.draft.passes if one.draft else len(one.token_scores) for one in made)
        self.erasure += erasure([*(one.without_last(self.mask) for one in made[:-1]), made[-1].text])
        self.last.append(made[-1].text)
        return made


def erasure(shown: Sequence[str]) -> float:
    """Return the words that are taken back, for each word of the last text."""
    words = [text.split() for text in shown]
    kept = [
        list(takewhile(lambda both: both[0] == both[1], zip(*two, strict=False))) for two in pairwise(words)
    ]
    return sum(len(one) - len(same) for one, same in zip(words, kept, strict=False)) / max(len(words[-1]), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument(
        "--text", type=Path, default=DATA / "test_2016_flickr.en.gz", help="a sentence a line"
    )
    parser.add_argument("--reference", type=Path, default=DATA / "test_2016_flickr.de.gz")
    parser.add_argument("--model", help="a model's folder or name; the bundled one by default")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()

    from sacrebleu import corpus_bleu

    sentences = [line.split() for line in first_lines(asked.text, asked.sentences)]
    reference = first_lines(asked.reference, asked.sentences)
    translator = Translator.load(asked.model, threads=asked.threads, dtype=asked.dtype)
    nothing = Way(None)
    ways = [nothing, Way(0), Way(0.3), Way(0.45), Way(0.3, 1), Way(0.45, 1), Way(0.3, 2), Way(0, right=True)]
    texts = 0
    for words in sentences:
        beginnings = [" ".join(words[:count]) for count in range(1, len(words) + 1)]
        texts += len(beginnings)
        plain = ways[0].grow(translator, beginnings)
        for way in ways[1:]:
            made = way.grow(translator, beginnings, plain)
            if way.bias == 0 and [replace(one, draft=None) for one in made] != plain:
                raise SystemExit(f"a draft changes the translation of: {' '.join(words)}")
    print(f"{translator}: {len(sentences)} sentences, {texts} texts")
    figures = {}
    for way in ways:
        row = figures[str(way)] = {
            "passes": way.passes,
            "fewer passes": nothing.passes / way.passes,
            "milliseconds a text": 1000 * way.seconds / texts,
            "less time": nothing.seconds / way.seconds,
            "erasure": way.erasure / len(sentences),
            "erasure, relative": way.erasure / nothing.erasure,
            "BLEU": corpus_bleu(way.last, [reference]).score,
        }
        print(
            f"{way!s:20} {row['passes']:6} passes ({row['fewer passes']:.2f} x fewer)   "
            f"{row['milliseconds a text']:.2f} ms CPU ({row['less time']:.2f} x less)   "
            f"erasure {row['erasure']:.2f} ({row['erasure, relative']:.2f} of it)   BLEU {row['BLEU']:.1f}"
        )
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1))


def first_lines(path: Path, count: int) -> list[str]:
    """Return the first lines of a text file, which may be compressed."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line, _ in zip(lines, range(count), strict=False)]


if __name__ == "__main__":
    main()

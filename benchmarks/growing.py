"""Measure translating a growing text with its last translation as the draft, against translating from scratch
(M42).

    python benchmarks/growing.py           # 200 captions of Multi30k, the bundled model, one thread
    python benchmarks/growing.py --sentences 50 --text my.txt --model FOLDER --json growing.json

Each sentence is revealed word by word, and every beginning is translated: from scratch, and with the last
translation as the draft, without a bias, with a bias, and with a bias while the last word is not shown. The
translation itself as the draft shows the most that a draft can save. The methods take turns at each sentence.
Passes are those of the decoder. The erasure is the number of shown words that are taken back per word of the
last translation (Arivazhagan et al. 2020, section 3.2); BLEU is that of the last translations. Translations
without a bias must equal those from scratch.
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
class Policy:
    """A method of translating a growing text, and its total costs.

    A bias of None means translating each beginning from scratch.
    """

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
        """Translate the beginnings of a sentence in turn.

        ``answers`` are their translations from scratch.
        """
        translations: list[Translation] = []
        started = time.process_time()
        for index, text in enumerate(beginnings):
            if self.bias is None:
                translations.append(translator.translate(text, beam=1))
            else:
                previous = answers[index] if self.right else translations[-1] if translations else ""
                translations.append(translator.retranslate(text, previous, bias=self.bias, mask=self.mask))
        self.seconds += time.process_time() - started
        self.passes += sum(
            translation.draft.passes if translation.draft else len(translation.token_scores)
            for translation in translations
        )
        self.erasure += erasure(
            [
                *(translation.without_last(self.mask) for translation in translations[:-1]),
                translations[-1].text,
            ]
        )
        self.last.append(translations[-1].text)
        return translations


def erasure(texts: Sequence[str]) -> float:
    """Return the number of words that are taken back per word of the last text."""
    words = [text.split() for text in texts]
    common = [
        list(takewhile(lambda pair: pair[0] == pair[1], zip(*neighbours, strict=False)))
        for neighbours in pairwise(words)
    ]
    return sum(len(sentence) - len(same) for sentence, same in zip(words, common, strict=False)) / max(
        len(words[-1]), 1
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument(
        "--text", type=Path, default=DATA / "test_2016_flickr.en.gz", help="file with one sentence per line"
    )
    parser.add_argument("--reference", type=Path, default=DATA / "test_2016_flickr.de.gz")
    parser.add_argument("--model", help="a model's folder or name; the bundled one by default")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    from sacrebleu import corpus_bleu

    sentences = [line.split() for line in first_lines(arguments.text, arguments.sentences)]
    reference = first_lines(arguments.reference, arguments.sentences)
    translator = Translator.load(arguments.model, threads=arguments.threads, dtype=arguments.dtype)
    without_draft = Policy(None)
    policies = [
        without_draft,
        Policy(0),
        Policy(0.3),
        Policy(0.45),
        Policy(0.3, 1),
        Policy(0.45, 1),
        Policy(0.3, 2),
        Policy(0, right=True),
    ]
    texts = 0
    for words in sentences:
        beginnings = [" ".join(words[:count]) for count in range(1, len(words) + 1)]
        texts += len(beginnings)
        plain = policies[0].grow(translator, beginnings)
        for policy in policies[1:]:
            translations = policy.grow(translator, beginnings, plain)
            if (
                policy.bias == 0
                and [replace(translation, draft=None) for translation in translations] != plain
            ):
                raise SystemExit(f"a draft changes the translation of: {' '.join(words)}")
    print(f"{translator}: {len(sentences)} sentences, {texts} texts")
    figures = {}
    for policy in policies:
        row = figures[str(policy)] = {
            "passes": policy.passes,
            "fewer passes": without_draft.passes / policy.passes,
            "milliseconds a text": 1000 * policy.seconds / texts,
            "less time": without_draft.seconds / policy.seconds,
            "erasure": policy.erasure / len(sentences),
            "erasure, relative": policy.erasure / without_draft.erasure,
            "BLEU": corpus_bleu(policy.last, [reference]).score,
        }
        print(
            f"{policy!s:20} {row['passes']:6} passes ({row['fewer passes']:.2f} x fewer)   "
            f"{row['milliseconds a text']:.2f} ms CPU ({row['less time']:.2f} x less)   "
            f"erasure {row['erasure']:.2f} ({row['erasure, relative']:.2f} of it)   BLEU {row['BLEU']:.1f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


def first_lines(path: Path, count: int) -> list[str]:
    """Return the first lines of a text file, which may be compressed."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        return [line.strip() for line, _ in zip(lines, range(count), strict=False)]


if __name__ == "__main__":
    main()

"""Measure the quality of a model folder.

    python measure.py MODEL --tatoeba FOLDER --multi30k FOLDER [--output FILE.json]

Tatoeba's dev and test set (first reference and all), Multi30k's test_2016_flickr (raw), the 500 sentences of
made_up.py whose values must be copied, the share of words that hunspell does not know, the interface texts
of interface_test.tsv that get an accepted translation, everyday_test.tsv in chrF, and thirty everyday
sentences, to be read: phrases.tsv was written with an eye on them. One thread.
"""

from __future__ import annotations

import json
from pathlib import Path

import sacrebleu
from workplace import WORD, add_corpora, arguments, existing, rows, unknown_words

from uwaga import Translator

RECIPE = Path(__file__).parent
EVERYDAY = """\
Nice to meet you.
Anna lives in Warsaw
Anna lives in Warsaw.
1987
I was born in 1987.
How are you?
Where is the station?
I would like a cup of coffee, please.
What time is it?
The train leaves at 10:35.
Can you help me?
I don't understand.
Thank you very much.
How much does it cost?
It costs 12.50 euros.
My name is Peter Kowalski.
Good morning!
See you tomorrow.
I am hungry.
The weather is nice today.
We are going to the cinema tonight.
Please close the window.
I have lost my keys.
She is reading a book in the garden.
Two dogs are playing on the beach.
My e-mail address is anna.nowak@example.com.
Is there a pharmacy near here?
I love you.
The children are playing football in the park.
The meeting was moved to Friday.
""".splitlines()


class Measure:
    """A model, the folders of the test sets, and the figures measured so far."""

    def __init__(self, model: Path, work: Path, tatoeba: Path, multi30k: Path) -> None:
        self.model = Translator.load(existing(model, "uwaga average makes it"), threads=1)
        self.work, self.tatoeba, self.multi30k = work, tatoeba, multi30k
        self.figures: dict[str, object] = {"megabytes": sum(p.stat().st_size for p in model.iterdir()) / 1e6}

    def translate(self, sources: list[str]) -> list[str]:
        return [translation.text for translation in self.model.translate(sources)]

    def sentences(self) -> None:
        """Measure Tatoeba; a line contains a source and all its references."""
        for part in ("dev", "test"):
            lines = list(rows(self.tatoeba / f"{part}.en-de.tsv.gz", "--tatoeba names its folder"))
            out = self.translate([line[0] for line in lines])
            prefixes = [
                [line[length] if len(line) > length else "" for line in lines]  # no reference
                for length in range(1, max(map(len, lines)))
            ]
            first = sacrebleu.corpus_bleu(out, prefixes[:1])
            self.figures[f"tatoeba {part}"] = round(first.score, 2)
            self.figures[f"tatoeba {part}, all references"] = round(
                sacrebleu.corpus_bleu(out, prefixes).score, 2
            )

    def captions(self) -> None:
        """Measure Multi30k, and the share of words that no dictionary has."""
        english, german = (
            [
                row[0]
                for row in rows(
                    self.multi30k / f"test_2016_flickr.{language}.gz", "--multi30k names its folder"
                )
            ]
            for language in ("en", "de")
        )
        out = self.translate(english)
        self.figures["multi30k"] = round(sacrebleu.corpus_bleu(out, [german]).score, 2)
        share, unknown = self.unknown(out)
        self.figures["unknown words %, multi30k"] = share
        self.figures["unknown words %, references"] = self.unknown(german)[0]
        self.figures["unknown words"] = unknown[:60]

    def unknown(self, texts: list[str]) -> tuple[float, list[str]]:
        """Return the percentage of words that hunspell does not know, and these words."""
        words = [word for text in texts for word in WORD.findall(text)]
        missing = unknown_words(self.work, words)
        return round(100 * len(missing) / max(1, len(words)), 2), missing

    def copied(self) -> None:
        """Measure the percentage of sentences in which all values are right, and record the wrong ones."""
        lines = list(rows(self.work / "data/test.copy.tsv", "made_up.py makes it"))
        out = self.translate([line[0] for line in lines])
        failed = {
            line[0]: text
            for line, text in zip(lines, out, strict=True)
            if not all(part in text for part in line[2].split("|"))
        }
        self.figures["copied %"] = round(100 - 100 * len(failed) / len(lines), 2)
        self.figures["not copied"] = failed

    def interface(self) -> None:
        """Measure the percentage of texts with an accepted translation, for learned and held-out texts."""
        lines = list(rows(RECIPE / "interface_test.tsv"))
        out = self.translate([line[1] for line in lines])
        for half in ("known", "held out"):
            answers = [(line, text) for line, text in zip(lines, out, strict=True) if line[0] == half]
            wrong = {line[1]: text for line, text in answers if text not in line[2:]}
            self.figures[f"interface %, {half}"] = round(100 - 100 * len(wrong) / len(answers), 2)
            self.figures[f"interface wrong, {half}"] = wrong

    def everyday(self) -> None:
        """Measure sentences that no stage has seen, which were written before stage 6."""
        lines = list(rows(RECIPE / "everyday_test.tsv"))
        out = self.translate([line[0] for line in lines])
        score = sacrebleu.corpus_chrf(out, [[line[1] for line in lines]]).score
        self.figures["everyday chrF"] = round(score, 2)
        self.figures["everyday"] = dict(zip(EVERYDAY, self.translate(EVERYDAY), strict=True))


def main() -> None:
    parser = arguments(__doc__)
    add_corpora(parser)
    parser.add_argument("model", type=Path, help="a model folder")
    parser.add_argument("--output", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    measure = Measure(options.model, options.work, options.tatoeba, options.multi30k)
    measure.sentences()
    measure.captions()
    measure.copied()
    measure.interface()
    measure.everyday()
    text = json.dumps(measure.figures, indent=1, ensure_ascii=False)
    print(text)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

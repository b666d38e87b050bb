"""Train the tiny model, which translates English numerals (0 to 999, a tenth held out) to German.

    python tests/models/make.py        # in the repository; a minute on one core

German swaps the last two digits (forty-two is zweiundvierzig), so attention is not monotonic.
"""

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ENGLISH_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
ENGLISH = ENGLISH_WORDS.split()
ENGLISH_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
GERMAN_WORDS = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
    "sechzehn siebzehn achtzehn neunzehn"
)
GERMAN = GERMAN_WORDS.split()
GERMAN_TENS = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")


def english(number: int) -> str:
    """Return the number in English words."""
    if number >= 100:
        remainder = f" {english(number % 100)}" if number % 100 else ""
        return f"{ENGLISH[number // 100]} hundred{remainder}"
    if number < 20:
        return ENGLISH[number]
    tens = ENGLISH_TENS[number // 10 - 2]
    return f"{tens} {ENGLISH[number % 10]}" if number % 10 else tens


def german(number: int, last: bool = True) -> str:
    """Return the number in German words; ``last`` is True at the end of the numeral, where 1 is "eins"."""
    if number >= 100:
        return f"{GERMAN[number // 100]}hundert" + (german(number % 100) if number % 100 else "")
    if number < 20:
        return GERMAN[number] + ("s" if number == 1 and last else "")
    tens = GERMAN_TENS[number // 10 - 2]
    return f"{german(number % 10, last=False)}und{tens}" if number % 10 else tens


def held_out() -> list[int]:
    """Return the numbers on which the model is not trained."""
    return sorted(random.Random(7).sample(range(100, 1000), 98))


def main() -> None:
    """Write the corpus, train with ``uwaga train``, and store the model folder beside this file."""
    unseen = set(held_out())
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for part, numbers in (("train", set(range(1000)) - unseen), ("dev", unseen)):
            lines = [f"{english(number)}\t{german(number)}\n" for number in sorted(numbers)]
            (work / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
        shutil.copy(FOLDER / "numbers.yaml", work)
        subprocess.run([sys.executable, "-m", "uwaga", "train", "numbers.yaml"], cwd=work, check=True)
        shutil.rmtree(FOLDER / "numbers-en-de", ignore_errors=True)
        shutil.copytree(work / "run/model", FOLDER / "numbers-en-de")


if __name__ == "__main__":
    main()

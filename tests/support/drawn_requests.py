"""Draw translation requests of every kind and print their results, to compare two versions of the code.

    python tests/support/drawn_requests.py --count 5000 > new.jsonl

Run it in both checkouts and compare the outputs: on the native engine they are equal bit for bit. Each line
is a call: its options, and ``to_dict()`` of its translations or the error that it raised.
"""

import argparse
import dataclasses
import json
import random
import sys
from typing import Any

import uwaga
from uwaga.results.translation import Translation
from uwaga.translator import Request, Translator

Draw = random.Random

SENTENCES = (
    "I want to buy a car.",
    "The man is reading a long book in the garden.",
    "Do you know what time it is?",
    "Two dogs run through the snow",
    "My brother never drinks coffee in the evening, because he cannot sleep then.",
    "He left. We are going home now! It is late.",
    "3.14",
    "",
    "   ",
    "https://example.org/a",
    "  A woman in a red coat waits for the bus.  ",
    "First line.\nSecond line, a little longer than the first.\r\n\r\nThird line",
    "Wo ist der Bahnhof?",
    "Привет, как дела?",
)
UNTRANSLATABLE_STRINGS = (
    "{name}", "%s", "$HOME", "info@example.org", "README.md", "20 kg", "<b>", "%(count)d", "v1.2.3",
)  # fmt: skip
PLURAL_MESSAGES = (
    "{count, plural, one {# new message} other {# new messages from {name}}}",
    "{gender, select, male {He} female {She} other {They}} will come.",
)
OVERLONG_SENTENCE = "a " * 260
MALFORMED_TEXTS = ("\udc80 is no character.", "an <unclosed", "&#xFFFFFFFF; & <a></b>")
GLOSSARY = {"car": "Wagen|Wagens", "book": "Roman", "garden": "Park", "coffee": "Kaffee", "uwaga": None}


def text(draw: Draw, format_: str) -> str:
    """Return a random text in a format, which may contain placeholders, messages, tags and mistakes."""
    words = draw.choice(SENTENCES)
    if draw.random() < 0.25:
        words = f"{words} {draw.choice(SENTENCES)}"
    if draw.random() < 0.3:
        parts = words.split(" ")
        for _ in range(draw.randint(1, 3)):
            parts.insert(draw.randint(0, len(parts)), draw.choice(UNTRANSLATABLE_STRINGS))
        words = " ".join(parts)
    if draw.random() < 0.08:
        words = f"{words} {draw.choice(PLURAL_MESSAGES)}"
    if draw.random() < 0.04:
        words = draw.choice(MALFORMED_TEXTS)
    if draw.random() < 0.01:
        words = OVERLONG_SENTENCE
    if format_ in ("html", "xml"):
        words = words.replace("&", "&amp;").replace("<", "&lt;") if draw.random() < 0.9 else words
        parts = words.split(" ")
        for tag in draw.sample(("b", "i", "a", "code", "p"), draw.randint(0, 3)):
            start = draw.randint(0, len(parts))
            stop = draw.randint(start, len(parts))
            parts[start:stop] = [f"<{tag}>{' '.join(parts[start:stop])}</{tag}>"]
        words = " ".join(parts)
        return f"<p>{words}</p>" if format_ == "xml" or draw.random() < 0.3 else words
    if format_ == "markdown":
        mark = draw.choice(("**", "_", "`", "# ", "- ", ""))
        parts = words.split(" ")
        start = draw.randint(0, len(parts))
        parts[start : start + 2] = [mark + " ".join(parts[start : start + 2]) + mark.strip("# -")]
        return " ".join(parts)
    return words


def options(draw: Draw, chain: bool) -> dict[str, Any]:
    """Return random options of a call, which sets only a few of them."""
    drawn: dict[str, Any] = {"format": draw.choice(("text", "text", "text", "html", "xml", "markdown"))}

    def sometimes(chance: float, name: str, *values: object) -> None:
        if draw.random() < chance:
            drawn[name] = draw.choice(values)

    sometimes(0.7, "on_error", "return", "copy")
    sometimes(0.2, "glossary", GLOSSARY)
    sometimes(0.1, "glossary_mode", "soft")
    sometimes(0.3, "split", "sentences", "never")
    sometimes(0.15, "placeholders", False, ["[A-Z]{2,}"])
    sometimes(0.15, "prefix", "Ich", "Der Mann", "Hallo.")
    sometimes(0.1, "source", "auto")
    sometimes(0.15, "alignment", True)
    sometimes(0.1, "entropy", True)
    sometimes(0.1, "attention", True, "all")
    sometimes(0.1, "coverage", True, "unaligned")
    sometimes(0.1, "max_length", 3, 12)
    sometimes(0.1, "no_repeat_ngram", 2, 3)
    if drawn["format"] in ("html", "xml"):
        sometimes(0.2, "ignore_tags", ["code"], ["b"])
    how = draw.random()
    if how < 0.15:
        drawn |= {"beam": 1}
    elif how < 0.4:
        drawn |= {"beam": 4, "nbest": draw.choice((2, 4))}
    elif how < 0.55:
        drawn |= {"sample": True, "seed": 3, "top_k": 10}
        sometimes(0.3, "mbr", 4)
    elif how < 0.7 and not chain:
        drawn |= {"draft": draw.choice(("Ich will ein Auto kaufen.", "Der Mann liest ein Buch. Er", "x"))}
        sometimes(0.4, "bias", 0.2)
        sometimes(0.3, "mask", 1)
    return drawn


def result(translation: Translation) -> object:
    """Return a translation, including its error, as JSON values."""
    return {**translation.to_dict(), "error": repr(translation.error)}


def call(translators: dict[str, Translator], draw: Draw) -> dict[str, object]:
    """Draw a random call, run it, and return it with its results."""
    name = draw.choice(tuple(translators))
    translator = translators[name]
    drawn = options(draw, name == "chain")
    texts: list[Any] = [text(draw, drawn["format"]) for _ in range(draw.choice((1, 1, 2, 3, 5)))]
    if draw.random() < 0.02:
        texts.append(5)
    if name == "drafted":
        for option in ("beam", "nbest", "sample", "seed", "top_k", "mbr"):
            drawn.pop(option, None)
    way = draw.choice(("list", "list", "list", "run", "stream"))
    record: dict[str, object] = {"model": name, "way": way, "texts": repr(texts), "options": repr(drawn)}
    try:
        if way == "stream":
            drawn |= {"nbest": 1} if "nbest" in drawn else {}
            record["results"] = list(translator.stream(texts[0], **drawn))
        elif way == "run":
            fields = Request.__dataclass_fields__
            search = {key: value for key, value in drawn.items() if key not in fields}
            rest = {key: value for key, value in drawn.items() if key in fields}
            requests = [Request(each, search=search, **rest) for each in texts]
            record["results"] = [result(each) for each in translator.run(requests, window=2)]
        else:
            record["results"] = [result(each) for each in translator.translate(texts, **drawn)]
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {error}"
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=5000, help="number of calls (default: 5000)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    bundled = uwaga.Translator.load(threads=1)
    second = dataclasses.replace(bundled.model, languages=("de", "pt"), known=None, drafter=None)
    translators = {
        "bundled": bundled,
        "chain": Translator(bundled.model.between(), second),
        "drafted": bundled.with_drafter(bundled),
    }
    for number in range(arguments.count):
        draw = random.Random(f"{arguments.seed}.{number}")
        record = call(translators, draw)
        sys.stdout.write(json.dumps({"number": number, **record}, default=str) + "\n")


if __name__ == "__main__":
    main()

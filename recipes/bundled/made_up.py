"""Generate sentence pairs from our own templates: values to be copied, and plain scenes.

    python made_up.py

Writes data/made.copy.tsv and data/made.scenes.tsv (training), and data/test.copy.tsv: 500 sentences of other
templates with other names, each with one German rendering and, separated by ``|``, what a translation must
hold.
"""

from __future__ import annotations

import random

from scenes import Scene
from templates import COPY, HELD_OUT, fill
from values import Values, test_names, training_names
from workplace import arguments, write_pairs

EXAMPLES, TEST_EXAMPLES = 60_000, 500


def main() -> None:
    data = arguments(__doc__).parse_args().work / "data"
    rng = random.Random(13)
    values, scene = Values(rng, training_names()), Scene(rng)
    copies = dict.fromkeys(fill(COPY[number % len(COPY)], values) for number in range(EXAMPLES))
    scenes = dict.fromkeys(scene.sentence() for _ in range(EXAMPLES))
    write_pairs(data / "made.copy.tsv", copies)
    write_pairs(data / "made.scenes.tsv", scenes)

    values = Values(random.Random(31), test_names())
    tests: dict[tuple[str, str], str] = {}
    while len(tests) < TEST_EXAMPLES:
        values.copied = []
        pair = fill(HELD_OUT[len(tests) % len(HELD_OUT)], values)
        if pair not in copies and pair not in tests:
            tests[pair] = "|".join(values.copied)
    write_pairs(
        data / "test.copy.tsv", ((source, f"{german}\t{parts}") for (source, german), parts in tests.items())
    )
    print(
        f"{len(copies)} values to copy, {len(scenes)} scenes, {len(tests)} sentences for the test, in {data}"
    )


if __name__ == "__main__":
    main()

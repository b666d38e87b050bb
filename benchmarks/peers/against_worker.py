"""Translate sentences of a file with one checkout of uwaga, as many at once as each line of the input says.

The answer to each line is the processor time in seconds. Only what every revision has is used.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from uwaga import Translator


def main(folder: str, dtype: str, sentences: str, tokens: str) -> None:
    texts = Path(sentences).read_text(encoding="utf-8").splitlines()
    translator = Translator.load(folder, threads=1, dtype=dtype)
    options = {"beam": 1, "split": "never", "min_length": int(tokens), "max_length": int(tokens) + 1}
    translator.translate(texts[:1], **options)
    print("ready", flush=True)
    for line in sys.stdin:
        start = time.process_time()
        translator.translate(texts[: int(line)], **options)
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

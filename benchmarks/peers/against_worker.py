"""Translate sentences of a file with one checkout of uwaga, in batches whose sizes are the lines of the
input.

The answer to each line is the processor time in seconds. The script uses only functions that all revisions
have.
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

"""Load a model and translate one sentence with one system; print the time and the memory that this took.

For a system that needs torch, the clock starts after its import. ``peak_mib`` is the peak resident memory
(VmHWM), including pages of the model's file; ``private_mib`` is the current memory that the process does not
share with the page cache.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main(system: str, folder: Path) -> None:
    started = time.perf_counter()
    if system == "transformers":
        import torch

    imported = time.perf_counter()
    words = json.loads((folder / "vocab.json").read_text())
    text = " ".join(piece.lstrip("\u2581") for piece in list(words)[100:112])
    start = time.perf_counter()
    if system == "uwaga":
        import uwaga

        translator = uwaga.load(folder, device="cpu")
        loaded = moment(start)
        translation = translator.translate(text).text
        versions = {"uwaga": uwaga.__version__}
        assert "torch" not in sys.modules
    else:
        import transformers

        tokeniser = transformers.MarianTokenizer.from_pretrained(folder)
        model = transformers.MarianMTModel.from_pretrained(folder)
        loaded = moment(start)
        batch = tokeniser([text], return_tensors="pt", padding=True)
        with torch.inference_mode():
            rows = model.generate(**batch)
        translation = tokeniser.batch_decode(rows, skip_special_tokens=True)[0]
        versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    translated = moment(start)
    values: dict[str, Any] = {"torch_seconds": imported - started, "loaded": loaded, "translated": translated}
    print(json.dumps(values | {"translation": translation, "versions": versions}))


def moment(start: float) -> dict[str, float]:
    """Return the seconds since ``start``, and the current memory of the process."""
    seconds = time.perf_counter() - start
    status = _kib(Path("/proc/self/status"))
    rollup = _kib(Path("/proc/self/smaps_rollup"))
    private = rollup["Private_Clean"] + rollup["Private_Dirty"] - rollup.get("Private_Hugetlb", 0)
    anonymous = rollup.get("Anonymous", private)
    return {
        "seconds": seconds,
        "peak_mib": status["VmHWM"] / 1024,
        "private_mib": min(private, anonymous) / 1024,
        "resident_mib": status["VmRSS"] / 1024,
    }


def _kib(path: Path) -> dict[str, int]:
    """Return the values in a file of /proc that are given in kB."""
    lines = [line.split() for line in path.read_text().splitlines()]
    return {line[0].rstrip(":"): int(line[1]) for line in lines if line[-1] == "kB"}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

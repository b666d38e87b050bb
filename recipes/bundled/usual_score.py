"""Store in a model's config.json how probable its translations of Tatoeba's dev sources usually are.

    python usual_score.py MODEL --tatoeba FOLDER

A text whose translation is less probable than 99 of 100 of them is marked as unlike what the model knows.
"""

from __future__ import annotations

import json
from pathlib import Path

from workplace import add_corpora, arguments, rows

from uwaga import Translator
from uwaga.checkpoints.score_stats import summarise_scores


def main() -> None:
    parser = arguments(__doc__)
    add_corpora(parser)
    parser.add_argument("model", type=Path, help="a model folder")
    options = parser.parse_args()
    sources = [row[0] for row in rows(options.tatoeba / "dev.en-de.tsv.gz", "--tatoeba names its folder")]
    stats = summarise_scores(Translator.load(options.model, threads=1).translate(sources, split="never"))
    assert stats is not None
    path = options.model / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["usual_score"] = stats.model_dump()
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8")
    print(config["usual_score"])


if __name__ == "__main__":
    main()

"""The settings of corpora: the short form, the long form, and invalid values."""

import pytest

from uwaga.errors import SettingsError
from uwaga.settings import CorpusSettings, DataSettings, Settings, parse


def test_corpora_accept_short_and_long_forms_and_reject_invalid_values() -> None:
    def parse_data(**data: object) -> DataSettings:
        values = {"run": "r", "data": {"train": ["a.tsv"], "dev": ["b.tsv"], **data}}
        return parse(Settings, values, "s.yaml").data

    short = parse_data(train=["a.en", "a.de"])
    assert short.train == [CorpusSettings(files=("a.en", "a.de"))]
    assert short.model_dump(mode="json")["train"] == ["a.en", "a.de"]
    long = parse_data(
        train=[
            {"files": ["x/a.tsv"], "weight": 2, "tag": ">>deu<<"},
            {"files": ["y/a.tsv"], "filters": {"max_ratio": 2}},
        ],
        max_tokens=99,
    )
    reparsed = parse_data(**long.model_dump(mode="json"))
    assert reparsed == long
    first, second = long.resolved("train")
    assert (first.name, second.name) == ("a.tsv", "a.tsv-2")
    assert (first.filters.max_tokens, first.filters.max_ratio, second.filters.max_ratio) == (99, 9.0, 2)
    for data, message in (
        (
            {"train": [{"files": ["a"], "wieght": 2}]},
            r"unknown setting 'data\.train\.0\.wieght'; did you mean 'weight'",
        ),
        (
            {"train": [{"files": ["a"], "filters": {"max_token": 2}}]},
            r"unknown setting 'data\.train\.0\.filters\.max_token'; did you mean 'max_tokens'",
        ),
        ({"train": [{"files": ["a"], "tag": f"<{'a' * 99}>"}]}, "at most 64 characters"),
        ({"train": [{"files": ["a"], "tag": "<\x1b[31m>"}]}, "a tag has the form"),
        ({"train": [{"files": ["a"], "weight": float("inf")}]}, "weight: should be a finite number"),
        ({"temperature": float("nan")}, "temperature: should be"),
        ({"train": [{"weight": 2}]}, r"setting 'data\.train\.0\.files' is missing"),
        ({"train": []}, r"data\.train: "),
        ({"train": ["a", "b", "c"]}, "write several corpora as separate entries"),
        ({"train": [{"files": ["a"], "tag": "de"}]}, "a tag has the form >>deu<< or <2de>"),
        ({"train": [{"files": ["a"], "columns": ["en"]}]}, "at least two columns"),
        (
            {"train": [{"files": ["a"], "weight": 2}], "temperature": 5},
            "temperature and weights of corpora are mutually exclusive",
        ),
        ({"dev": [{"files": ["a"], "weight": 2}]}, "dev and also: weights can be given only for train"),
        (
            {"also": {"news": [{"files": ["a"], "weight": 2}]}},
            "dev and also: weights can be given only for train",
        ),
        (
            {"also": {"news": [{"files": ["a"], "name": "x"}, {"files": ["b"], "name": "x"}]}},
            "also.news: two corpora are named 'x'",
        ),
        (
            {
                "train": [{"files": ["a"], "name": "x"}, {"files": ["b"], "name": "x"}],
                "also": {"train": [{"files": ["a"]}]},
            },
            "train: two corpora are named 'x'",
        ),
        (
            {"train": [{"files": ["a"], "name": "x"}, {"files": ["b"], "name": "x"}]},
            "two corpora are named 'x'",
        ),
        ({"train": [{"files": ["a"], "weight": 0}]}, r"data\.train\.0\.weight"),
    ):
        with pytest.raises(SettingsError, match=message):
            parse_data(**data)


@pytest.mark.parametrize("rank", [0, -1, 10**9])
def test_invalid_lora_rank_is_rejected(rank: int) -> None:
    with pytest.raises(SettingsError, match=r"adapt\.lora\.rank"):
        parse(Settings, {"data": {"train": ["a"], "dev": ["b"]}, "adapt": {"lora": {"rank": rank}}}, "s.yaml")

"""Settings of corpora: their files, how they are read, and how often their pairs occur in an epoch."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, field_serializer, field_validator, model_validator

from uwaga.languages.codes import LANGUAGE_TAG
from uwaga.languages.names import language_code
from uwaga.settings.parsing import Probability, StrictModel

Format = Literal["auto", "text", "tsv", "moses", "tmx", "parquet", "jsonl"]
MAX_TAG_LENGTH = 64
"""Maximum number of characters of a tag."""
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")
MAX_WEIGHT = 1e4
_MAX_NAME_LENGTH = 60


File = Annotated[
    str, BeforeValidator(lambda file: str(file) if isinstance(file, Path) else file), Field(min_length=1)
]


class FilterSettings(StrictModel):
    """Filters that drop pairs of a corpus; lengths are in subwords."""

    min_tokens: PositiveInt = Field(1, description="minimum length of a side")
    max_tokens: PositiveInt | None = Field(
        None, description="maximum length of a side; data.max_tokens if not given"
    )
    max_ratio: float | None = Field(
        None,
        gt=1.0,
        description="maximum ratio of the longer side to the shorter; data.max_ratio if not given",
    )
    equal_sides: Literal["keep", "drop"] = Field(
        "keep", description="what to do with pairs whose sides are identical"
    )


class CorpusSettings(StrictModel):
    """A corpus: its files, how they are read, and how often its pairs occur in an epoch."""

    files: tuple[File, ...] = Field(
        min_length=1, description="paths or URLs: two aligned texts, a Moses prefix, or files of one format"
    )
    name: str = Field(
        "",
        pattern=r"^[A-Za-z0-9_.-]*$",
        max_length=_MAX_NAME_LENGTH,
        description="name of the corpus in its store and in messages",
    )
    format: Format = Field(
        "auto", description="format of the files; auto detects it from the file name suffixes"
    )
    columns: tuple[PositiveInt | str, ...] = Field(
        (),
        description="columns of source, target and further references: names, or in TSV numbers from 1; "
        "if names are given, the first line of TSV is a header",
    )
    languages: tuple[str, str] | None = Field(
        None, description="codes of the source and target language; data.languages if not given"
    )
    tag: str = Field("", description="language tag put before each source, such as >>deu<< or <2de>")
    weight: float | None = Field(
        None,
        gt=0.0,
        le=MAX_WEIGHT,
        description="number of times each pair is shown in an epoch; 1 if not given",
    )
    bad_lines: Literal["skip", "stop"] | None = Field(
        None, description="what to do with bad lines; data.bad_lines if not given"
    )
    alignment: str = Field(
        "",
        description="file of word alignments for training.guided_alignment; line n aligns pair n, as in "
        "0-0 1-2",
    )
    filters: FilterSettings = Field(default_factory=FilterSettings)

    @field_validator("tag")
    @classmethod
    def _check_tag(cls, tag: str) -> str:
        if tag and not (LANGUAGE_TAG.fullmatch(tag) and tag.isprintable() and len(tag) <= MAX_TAG_LENGTH):
            raise ValueError(
                f"a tag has the form >>deu<< or <2de>, without spaces, and at most {MAX_TAG_LENGTH} "
                "characters"
            )
        return tag

    @field_validator("columns")
    @classmethod
    def _check_columns(cls, columns: tuple[int | str, ...]) -> tuple[int | str, ...]:
        if len(columns) == 1:
            raise ValueError("at least two columns are needed, one for the source and one for the target")
        if len({type(column) for column in columns}) > 1:
            raise ValueError("columns must be all numbers or all names")
        return columns

    @property
    def is_plain(self) -> bool:
        """True if all settings except ``files`` have their defaults."""
        return self == CorpusSettings(files=self.files)


def _as_corpora(value: Any) -> Any:
    """Convert the short form, a path or a list of paths, to a list of one corpus."""
    if isinstance(value, str | Path):
        value = [value]
    if isinstance(value, list | tuple) and value and all(isinstance(path, str | Path) for path in value):
        if len(value) > 2:
            raise ValueError(
                "the short form is a file, two aligned files or a Moses prefix; write several corpora as "
                "separate entries: [{files: [...]}, {files: [...]}]"
            )
        return [{"files": list(value)}]
    return [value] if isinstance(value, dict | CorpusSettings) else value


CorporaSettings = Annotated[list[CorpusSettings], BeforeValidator(_as_corpora), Field(min_length=1)]


class DataSettings(StrictModel):
    """The corpora of a run.

    ``train`` and ``dev`` are a TSV file, a pair of aligned files, or a Moses prefix with ``languages``; or a
    list of corpora, each ``{files: [...], weight: 2, tag: ">>deu<<", ...}``. Files are plain, .gz, .zst, .xz
    or .bz2, on a disk or at a URL.
    """

    train: CorporaSettings = Field(
        description="a TSV file, two aligned files, a Moses prefix; or a list of corpora, each "
        "{files: [...], weight: 2, tag: '>>deu<<', ...}"
    )
    dev: CorporaSettings = Field(description="like train, with pairs that are not in the training data")
    also: dict[str, CorporaSettings] = Field(
        default_factory=dict,
        description="additional dev sets by name, to check that fine-tuning does not make other texts worse",
    )
    temperature: float | None = Field(
        None, gt=0.0, description="sample corpora of n pairs in proportion to n ** (1 / temperature)"
    )
    languages: tuple[str, str] = Field(("src", "tgt"), description="source and target language codes")
    licence: str = Field("", description="licence and attribution of the corpora, for the model card")
    bad_lines: Literal["skip", "stop"] = Field(
        "skip", description="what to do with lines that are empty, too long or not UTF-8"
    )
    max_tokens: PositiveInt = Field(
        256, description="maximum length of a side of a training pair, in subwords"
    )
    max_ratio: float = Field(9.0, gt=1.0, description="maximum ratio of the longer side to the shorter")
    augment: dict[Literal["lower", "upper", "unpunctuated"], Probability] = Field(
        default_factory=dict,
        description="share of training sources shown lower-cased, upper-cased or unpunctuated",
    )
    subword_sampling: Probability = Field(
        0.0, description="alpha of subword regularisation (Kudo 2018) or rate of BPE dropout, 0 for none"
    )

    @model_validator(mode="after")
    def _check_languages(self) -> DataSettings:
        for name in self.languages:
            code = language_code(name)
            if code is not None and code != name.casefold():
                raise ValueError(f"languages: {name!r} is a name; write the code, {code!r}")
        return self

    @model_validator(mode="after")
    def _check_mixture(self) -> DataSettings:
        if self.temperature is not None and any(corpus.weight is not None for corpus in self.train):
            raise ValueError("temperature and weights of corpora are mutually exclusive; give one of them")
        dev_corpora = [*self.dev, *(corpus for corpora in self.also.values() for corpus in corpora)]
        if any(corpus.alignment for corpus in dev_corpora):
            raise ValueError("dev and also: alignments can be given only for train; remove them")
        if any(corpus.weight is not None for corpus in dev_corpora):
            raise ValueError(
                "dev and also: weights can be given only for train, because each dev pair is used once; "
                "remove them"
            )
        also = ((f"also.{name}", corpora) for name, corpora in self.also.items())
        for side, corpora in (("train", self.train), ("dev", self.dev), *also):
            name_counts = Counter(corpus.name for corpus in corpora if corpus.name)
            if duplicates := [name for name, count in name_counts.items() if count > 1]:
                raise ValueError(f"{side}: two corpora are named {duplicates[0]!r}")
        return self

    @field_serializer("train", "dev")
    def _serialize_corpora(self, corpora: list[CorpusSettings]) -> list[Any]:
        return _short_form(corpora)

    @field_serializer("also")
    def _serialize_also(self, also: dict[str, list[CorpusSettings]]) -> dict[str, list[Any]]:
        return {name: _short_form(corpora) for name, corpora in also.items()}

    def resolved(self, part: Literal["train", "dev"]) -> list[CorpusSettings]:
        """Return the corpora of ``train`` or ``dev`` after :meth:`resolve`."""
        return self.resolve(self.train if part == "train" else self.dev)

    def resolve(self, corpora: list[CorpusSettings]) -> list[CorpusSettings]:
        """Return copies of corpora, with unique names and with unset options filled in from this group."""
        names = {corpus.name for corpus in corpora}
        resolved_corpora = []
        for corpus in corpora:
            name = corpus.name
            if not name:
                name = _unique_name(corpus_stem(corpus.files[0]), names)
                names.add(name)
            filters = {
                "max_tokens": corpus.filters.max_tokens or self.max_tokens,
                "max_ratio": corpus.filters.max_ratio or self.max_ratio,
            }
            changes = {
                "name": name,
                "languages": corpus.languages or self.languages,
                "bad_lines": corpus.bad_lines or self.bad_lines,
                "filters": corpus.filters.model_copy(update=filters),
            }
            resolved_corpora.append(corpus.model_copy(update=changes))
        return resolved_corpora

    @property
    def tags(self) -> list[str]:
        """The distinct tags of all corpora, sorted."""
        also = (corpus for corpora in self.also.values() for corpus in corpora)
        return sorted({corpus.tag for corpus in (*self.train, *self.dev, *also) if corpus.tag})


def _short_form(corpora: list[CorpusSettings]) -> list[Any]:
    """Return corpora as JSON values for a settings file, in the short form if possible."""
    if len(corpora) == 1 and corpora[0].is_plain and len(corpora[0].files) <= 2:
        return list(corpora[0].files)
    return [corpus.model_dump(mode="json", exclude_defaults=True) for corpus in corpora]


def corpus_stem(file: str) -> str:
    """Return the name of a corpus, derived from its first file: ``news.en.gz`` for ``s3://b/news.en.gz``."""
    file_name = file.rstrip("/").rpartition("/")[2]
    return _INVALID_NAME_CHARACTERS.sub("_", file_name).strip("._")[-_MAX_NAME_LENGTH:] or "corpus"


def _unique_name(name: str, used_names: set[str]) -> str:
    candidates = (name, *(f"{name}-{number}" for number in range(2, len(used_names) + 3)))
    return next(candidate for candidate in candidates if candidate not in used_names)

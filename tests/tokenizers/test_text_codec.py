"""Tokenisers of the ``tokenizers`` library whose files are damaged where it does not look at first."""

import json

import pytest

tokenizers = pytest.importorskip("tokenizers")

from uwaga.errors import ModelError
from uwaga.tokenizers.codecs import LibraryCall, read_tokenizer_json
from uwaga.tokenizers.pretrained_files import Declared

PIECES = {"[UNK]": 0, "a": 1, "[CLS]": 2, "[SEP]": 3}


def folder(place, change):
    """A folder with a small sound tokeniser in which something is changed."""
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(PIECES, unk_token="[UNK]"))
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    values = json.loads(model.to_str())
    change(values)
    (place / "tokenizer.json").write_text(json.dumps(values))
    return place


def read(place):
    return read_tokenizer_json(place, Declared({}, {}, {}))


def test_a_sound_file_says_its_frame(tmp_path):
    assert read(folder(tmp_path, lambda values: None)).add_special_tokens() == ((2,), (3,))


def test_I11_15_a_panic_of_the_library_is_an_error_that_names_the_file(tmp_path):
    def rename(values):
        special = values["post_processor"]["special_tokens"]
        special["[XXX]"] = special.pop("[CLS]")

    codec = read(folder(tmp_path, rename))
    with pytest.raises(ModelError, match=r"tokenizer\.json: damaged"):
        codec.add_special_tokens()
    assert codec.encode("a") == [1]


def test_I11_15_an_unknown_token_that_is_none_is_an_error_that_names_the_file(tmp_path):
    codec = read(folder(tmp_path, lambda values: values["model"].update(unk_token="[GONE]")))
    with pytest.raises(ModelError, match=r"tokenizer\.json: damaged"):
        codec.encode("b")


def test_only_errors_of_the_library_are_renamed():
    class PanicException(BaseException):
        """As the library's, which is no Exception."""

    with pytest.raises(ModelError, match=r"m: damaged.*: oh no; fetch"), LibraryCall("m"):
        raise PanicException("oh no\nand more")
    with pytest.raises(KeyboardInterrupt), LibraryCall("m"):
        raise KeyboardInterrupt

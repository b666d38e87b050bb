"""Tokenisers of the library ``tokenizers`` with damage that it does not detect when loading."""

import json

import pytest

tokenizers = pytest.importorskip("tokenizers")

from uwaga.errors import ModelError
from uwaga.tokenizers.codecs import TokenizersErrorHandler, read_tokenizer_json
from uwaga.tokenizers.pretrained_files import TokeniserConfig

PIECES = {"[UNK]": 0, "a": 1, "[CLS]": 2, "[SEP]": 3}


def write_tokeniser(directory, change):
    """Write a small valid tokeniser, changed by ``change``, to a directory."""
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(PIECES, unk_token="[UNK]"))
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    values = json.loads(model.to_str())
    change(values)
    (directory / "tokenizer.json").write_text(json.dumps(values))
    return directory


def read(directory):
    return read_tokenizer_json(directory, TokeniserConfig({}, {}, {}))


def test_special_tokens_of_a_valid_file_are_read(tmp_path):
    assert read(write_tokeniser(tmp_path, lambda values: None)).special_token_frame() == ((2,), (3,))


def test_panic_in_the_tokenizers_library_raises_an_error_that_names_the_file(tmp_path):
    def rename(values):
        special = values["post_processor"]["special_tokens"]
        special["[XXX]"] = special.pop("[CLS]")

    codec = read(write_tokeniser(tmp_path, rename))
    with pytest.raises(ModelError, match=r"tokenizer\.json: damaged"):
        codec.special_token_frame()
    assert codec.encode("a") == [1]


def test_error_for_a_missing_unk_token_names_the_file(tmp_path):
    codec = read(write_tokeniser(tmp_path, lambda values: values["model"].update(unk_token="[GONE]")))
    with pytest.raises(ModelError, match=r"tokenizer\.json: damaged"):
        codec.encode("b")


def test_only_errors_of_the_tokenizers_library_are_converted():
    class PanicException(BaseException):
        """Stands for the panic exception of the library, which is not a subclass of Exception."""

    with pytest.raises(ModelError, match=r"m: damaged.*: oh no; fetch"), TokenizersErrorHandler("m"):
        raise PanicException("oh no\nand more")
    with pytest.raises(KeyboardInterrupt), TokenizersErrorHandler("m"):
        raise KeyboardInterrupt

# ruff: noqa: E501 (documents are shown as they are)
"""Files with any declared encoding and numbers of any length are read or rejected with an error."""

import codecs
import pkgutil
import random
from encodings import __path__ as codec_folder
from encodings.aliases import aliases
from pathlib import Path

import pytest

from uwaga.errors import UwagaError
from uwaga_documents import DocumentOptions, DocumentSource, find_format
from uwaga_documents.encodings import normalise_encoding

CODECS = sorted(
    {*aliases, *aliases.values(), *(module.name for module in pkgutil.iter_modules(codec_folder))}
)
DOCUMENTS = {
    "a.html": '<meta charset="{}"><p>Some words',
    "a.xhtml": '<?xml version="1.0" encoding="{}"?><p>Some words</p>',
    "a.xlf": '<?xml version="1.0" encoding="{}"?><xliff version="1.2"/>',
    "a.po": 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n\nmsgid "Some words"\nmsgstr ""\n',
}
NUMBERS = {
    "a.po": 'msgid ""\nmsgstr "Plural-Forms: nplurals={0}; plural=n=={0};\\n"\n\nmsgid "Some words"\nmsgstr ""\n',
    "a.srt": "1\n{0}:00:01,000 --> {0}:00:02,000\nSome words\n",
    "a.vtt": "WEBVTT\n\n{0}:00:01.000 --> {0}:00:02.000\nSome words\n",
    "a.html": "<p>Some &#{0}; &#x{0}; words",
    "a.md": "---\na: {0}\n---\n{0}. Some &#{0}; words\n",
    "a.json": '{{"a": {0}, "b": "Some words {{n, plural, offset:{0} ={0} {{a}} other {{b}}}}"}}',
    "a.yaml": "a: {0}\nb: Some words\n",
    "a.strings": '"a" = "Some words \\U{0}";',
    "a.xlf": '<xliff version="1.2"><file><body><trans-unit id="{0}"><source>Some</source></trans-unit></body></file></xliff>',
}


def read(name: str, content: bytes, options: DocumentOptions) -> None:
    """Read a document and encode it again; only a UwagaError may be raised."""
    read_format = find_format(Path(name)).read
    assert read_format is not None
    parsed = read_format(DocumentSource(name, content, options))
    encoder = parsed.encoder()
    for piece in parsed.pieces:
        encoder.encode(piece if isinstance(piece, str) else piece.raw or "")


def can_read(name: str, content: bytes, options: DocumentOptions) -> bool:
    try:
        read(name, content, options)
    except UwagaError:
        return False
    return True


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_with_any_declared_encoding_are_read_or_rejected(name):
    for encoding in (*CODECS, "", "os", "a" * 5000, "utf-8.", "..", "windows-874"):
        can_read(name, DOCUMENTS[name].format(encoding).encode() + b"\n", DocumentOptions(target="de"))


def test_files_of_random_bytes_are_read_or_rejected():
    for encoding in (*CODECS, "", "a\0", "\ud800", "os.path"):
        rng = random.Random(encoding.encode("utf-8", "replace"))
        for size in (0, 1, 2, 7, 100):
            can_read("a.txt", rng.randbytes(size), DocumentOptions(encoding=encoding))


def test_only_declared_text_encodings_are_accepted():
    for name in ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "rot13", "base64"):
        with pytest.raises(UwagaError, match="is not a known text encoding"):
            normalise_encoding(name, "a.html")
    for name in (
        "UTF-8", "latin1", "windows-1252", "shift_jis", "gb18030", "big5", "euc-kr", "koi8-u", "cp437",
    ):  # fmt: skip
        assert normalise_encoding(name, "a.html") == codecs.lookup(name).name


@pytest.mark.parametrize("name", NUMBERS)
def test_files_with_long_numbers_are_read_or_rejected(name):
    for digits in (1, 10, 19, 4300, 4301, 100_000):
        readable = can_read(name, NUMBERS[name].format("9" * digits).encode(), DocumentOptions(target="de"))
        assert readable or digits > 9

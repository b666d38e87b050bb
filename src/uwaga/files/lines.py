"""Reading lines of plain or compressed text files, as bytes or text; errors state where a file is damaged."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from uwaga.errors import DataError, MissingExtraError

MAX_LINE_LENGTH = 1 << 20  # bytes; longer lines are not sentences, and must not fill the memory
SAMPLE_BYTES = 1 << 16
BLOCK_BYTES = 1 << 17
GZIP_LEVEL = 6
MAX_CONTROL = 0.01  # maximum share of control bytes at the start of a text
_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 0x5?: a skippable frame
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f"))


class _ZstdFile(io.RawIOBase):
    """Reads Zstandard frames block by block (RFC 8878, 3.1.1); a block expands to at most 128 KiB.

    The readers in ``zstandard`` either decompress all input at once or do not detect truncated files.
    """

    def __init__(self, path: str | Path, file: io.BufferedReader) -> None:
        self._library = load_zstandard(path, "reading")
        self._file = file
        self._blocks = self._unpack()
        self._decompressed = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            while not self._decompressed:
                self._decompressed = next(self._blocks)
        except StopIteration:
            return 0
        except self._library.ZstdError as error:
            raise EOFError(str(error)) from None
        chunk = self._decompressed[: len(view)]
        view[: len(chunk)] = chunk
        self._decompressed = self._decompressed[len(chunk) :]
        return len(chunk)

    def _unpack(self) -> Iterator[bytes]:
        while self._file.peek(1):
            start = self._read(5)
            if start[1:4] == _SKIPPABLE and start[0] >> 4 == 5:
                remaining_bytes = int.from_bytes(start[4:] + self._read(3), "little")
                while remaining_bytes:
                    remaining_bytes -= len(self._read(min(remaining_bytes, BLOCK_BYTES)))
                continue
            frame = self._library.ZstdDecompressor().decompressobj()
            yield frame.decompress(start + self._read(self._library.frame_header_size(start) - len(start)))
            is_last = False
            while not is_last:
                header = self._read(3)
                bits = int.from_bytes(header, "little")
                is_last, is_run, size = bool(bits & 1), bits >> 1 & 3 == 1, bits >> 3
                yield frame.decompress(header + self._read(1 if is_run else size))
            if start[4] & 4:
                frame.decompress(self._read(4))  # the checksum

    def _read(self, size: int) -> bytes:
        content = self._file.read(size)
        if len(content) < size:
            raise EOFError("it ends before its end-of-frame marker")
        return content


class _DecompressedFile(io.BufferedReader):
    """A decompressing reader that also closes the compressed file."""

    def __init__(self, reader: io.RawIOBase, compressed: io.BufferedReader) -> None:
        super().__init__(reader, BLOCK_BYTES)
        self._compressed = compressed

    def close(self) -> None:
        super().close()
        self._compressed.close()


COMPRESSED_SUFFIXES = (".gz", ".zst", ".xz", ".bz2")
"""Suffixes of compressed files."""
_DECOMPRESSORS: tuple[tuple[bytes, Callable[[str | Path, io.BufferedReader], Any]], ...] = (
    (b"\x1f\x8b", lambda path, file: gzip.GzipFile(fileobj=file, mode="rb")),
    (b"\x28\xb5\x2f\xfd", _ZstdFile),
    (b"\xfd7zXZ\x00", lambda path, file: lzma.LZMAFile(file, mode="rb")),  # noqa: SIM115
    (b"BZh", lambda path, file: bz2.BZ2File(file, mode="rb")),
)


def open_bytes(path: str | Path) -> io.BufferedReader:
    """Open a file for reading; gzip, zstd, xz and bzip2, detected by their first bytes, are decompressed.

    Args:
        path: a local file or pipe, or the URL of an object as ``str``.
    """
    from uwaga.files.store import is_url, open_stream

    stream = open_stream(path)
    return open_decompressed(stream, path, not is_url(path) and not Path(path).is_file())


def open_decompressed(
    stream: io.BufferedReader, path: str | Path, is_pipe: bool = False
) -> io.BufferedReader:
    """Decompress an open file, like :func:`open_bytes`; closing the result closes the file.

    Args:
        stream: the file, at its start.
        path: the name of the file, for messages.
        is_pipe: whether the file is a pipe, which is not seekable.
    """
    try:
        start = stream.peek(6)
        opener = next((constructor for magic, constructor in _DECOMPRESSORS if start.startswith(magic)), None)
        if opener is None:
            return stream
        if is_pipe:
            raise DataError(
                f"{path}: a pipe with compressed data cannot be read; decompress it first, for example with "
                "zcat"
            )
        return _DecompressedFile(cast(io.RawIOBase, opener(path, stream)), stream)
    except OSError as error:
        stream.close()
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except BaseException:
        stream.close()
        raise


def check_compression(path: Path) -> None:
    """Raise MissingExtraError if a file name ends in ``.zst`` and zstandard is not installed."""
    if path.suffix.lower() == ".zst":
        load_zstandard(path, "writing")


@contextlib.contextmanager
def open_compressed(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Open a stream that compresses data and writes it to ``file``, in the format of ``path``'s suffix.

    The suffixes are ``.gz``, ``.zst``, ``.xz`` and ``.bz2``, in upper or lower case; for other suffixes, the
    stream is ``file`` itself. Equal content is compressed to equal bytes.
    """
    suffix = path.suffix.lower()
    if suffix == ".gz":
        stream: Any = gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0)
    elif suffix == ".xz":
        stream = lzma.LZMAFile(file, "wb")  # noqa: SIM115
    elif suffix == ".bz2":
        stream = bz2.BZ2File(file, "wb")
    elif suffix == ".zst":
        stream = load_zstandard(path, "writing").ZstdCompressor().stream_writer(file, closefd=False)
    else:
        yield file
        return
    with stream:
        yield stream


def load_zstandard(path: str | Path, operation: str) -> Any:
    """Import and return the module ``zstandard``.

    Args:
        path: the file, for messages.
        operation: ``reading`` or ``writing``, for messages.
    """
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(
            f"{path}: {operation} zstd files needs zstandard: pip install 'uwaga[zstd]'"
        ) from None
    return zstandard


def read_lines(path: str | Path) -> Iterator[bytes | None]:
    """Yield the lines of a file without their LF or CR LF; Unicode line separators are part of the text.

    Lines of more than a megabyte are yielded as None. A UTF-8 byte order mark at the start is dropped.
    """
    line_number = 0
    file = open_bytes(path)
    try:
        start = file.peek(SAMPLE_BYTES)[:SAMPLE_BYTES]
        _check_text(path, start)
        if start.startswith(b"\xef\xbb\xbf"):
            file.read(3)
        while line := file.readline(MAX_LINE_LENGTH):
            line_number += 1
            if line.endswith(b"\n"):
                yield line[:-2] if line.endswith(b"\r\n") else line[:-1]
            elif len(line) == MAX_LINE_LENGTH:
                while (remainder := file.readline(MAX_LINE_LENGTH)) and not remainder.endswith(b"\n"):
                    pass
                yield None
            else:
                yield line
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise damage_error(path, error, f"after line {line_number}") from None
    finally:
        file.close()


def damage_error(path: str | Path, error: Exception, position: str) -> DataError:
    """Return the DataError for a failure to read or decompress a file.

    ``position`` says where the failure occurred, such as ``after line 7``.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return DataError(f"{path}: cannot be read {position}: {error.strerror or error}")
    return DataError(
        f"{path}: the compressed file is truncated or damaged {position} ({error}); "
        "fetch or compress it again"
    )


def text_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file."""
    return decode_lines(read_lines(path), str(path))


def decode_lines(raw_lines: Iterable[bytes | None], name: str) -> Iterator[str]:
    r"""Decode lines of UTF-8; a final ``\n`` or ``\r\n`` is dropped.

    Args:
        raw_lines: the lines; None for lines that are too long.
        name: the name of the file, for messages.
    """
    for line_number, line in enumerate(raw_lines, start=1):
        if line is None:
            raise DataError(
                f"{name}: line {line_number} is too long to be a sentence; expected text, one sentence per "
                "line"
            )
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: line {line_number} is not UTF-8 at byte {error.start + 1}") from None
        yield text.removesuffix("\n").removesuffix("\r")


def _check_text(path: str | Path, start: bytes) -> None:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: the text is UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`")
    control_count = len(start) - len(start.translate(None, _CONTROL))
    if control_count > MAX_CONTROL * len(start):
        raise DataError(
            f"{path}: this is a binary file, not UTF-8 text ({control_count} control bytes at its beginning)"
        )

"""Lines of plain or compressed text files, as bytes or as text; damage is reported with its place."""

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

LONGEST_LINE = 1 << 20  # bytes; a longer line is not a sentence, and must not fill the memory
SAMPLE = 1 << 16
BLOCK = 1 << 17
GZIP_LEVEL = 6
MAX_CONTROL = 0.01  # share of control bytes at the beginning of a text
_SKIPPABLE = b"\x2a\x4d\x18"  # after a byte 0x5?: a frame of data for other programs
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f"))


class _ZstdFile(io.RawIOBase):
    """Reads Zstandard frames one block at a time (RFC 8878, 3.1.1), as a block unpacks to 128 KiB at most.

    The readers of zstandard either unpack all of their input at once or do not detect a truncated file.
    """

    def __init__(self, path: str | Path, file: io.BufferedReader) -> None:
        self._library = load_zstandard(path, "reading")
        self._file = file
        self._blocks = self._unpack()
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            while not self._ready:
                self._ready = next(self._blocks)
        except StopIteration:
            return 0
        except self._library.ZstdError as error:
            raise EOFError(str(error)) from None
        taken = self._ready[: len(view)]
        view[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)

    def _unpack(self) -> Iterator[bytes]:
        while self._file.peek(1):
            start = self._read(5)
            if start[1:4] == _SKIPPABLE and start[0] >> 4 == 5:
                left = int.from_bytes(start[4:] + self._read(3), "little")
                while left:
                    left -= len(self._read(min(left, BLOCK)))
                continue
            frame = self._library.ZstdDecompressor().decompressobj()
            yield frame.decompress(start + self._read(self._library.frame_header_size(start) - len(start)))
            last = False
            while not last:
                head = self._read(3)
                bits = int.from_bytes(head, "little")
                last, repeated, size = bool(bits & 1), bits >> 1 & 3 == 1, bits >> 3
                yield frame.decompress(head + self._read(1 if repeated else size))
            if start[4] & 4:
                frame.decompress(self._read(4))  # the checksum

    def _read(self, size: int) -> bytes:
        piece = self._file.read(size)
        if len(piece) < size:
            raise EOFError("it ends before its end-of-frame marker")
        return piece


class _Decompressed(io.BufferedReader):
    """A decompressing file that also closes the compressed one."""

    def __init__(self, decompressing: io.RawIOBase, compressed: io.BufferedReader) -> None:
        super().__init__(decompressing, BLOCK)
        self._compressed = compressed

    def close(self) -> None:
        super().close()
        self._compressed.close()


COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
"""Suffixes of compressed files."""
_COMPRESSED: tuple[tuple[bytes, Callable[[str | Path, io.BufferedReader], Any]], ...] = (
    (b"\x1f\x8b", lambda path, file: gzip.GzipFile(fileobj=file, mode="rb")),
    (b"\x28\xb5\x2f\xfd", _ZstdFile),
    (b"\xfd7zXZ\x00", lambda path, file: lzma.LZMAFile(file, mode="rb")),  # noqa: SIM115
    (b"BZh", lambda path, file: bz2.BZ2File(file, mode="rb")),
)


def open_bytes(path: str | Path) -> io.BufferedReader:
    """Open a file for reading decompressed; its first bytes say whether it is gzip, zstd, xz, bzip2 or plain.

    Args:
        path: a local file or pipe, or, as a ``str``, the URL of an object.
    """
    from uwaga.files.store import is_url, open_stream

    plain = open_stream(path)
    return decompressed(plain, path, not is_url(path) and not Path(path).is_file())


def decompressed(plain: io.BufferedReader, path: str | Path, piped: bool = False) -> io.BufferedReader:
    """Decompress an open file as :func:`open_bytes` does; closing the result closes the file.

    Args:
        plain: the file, at its beginning.
        path: its name in messages.
        piped: whether it is a pipe, in which seeking is impossible.
    """
    try:
        start = plain.peek(6)
        opener = next((make for magic, make in _COMPRESSED if start.startswith(magic)), None)
        if opener is None:
            return plain
        if piped:
            raise DataError(f"{path}: a compressed pipe; decompress it first, for example with zcat")
        return _Decompressed(cast(io.RawIOBase, opener(path, plain)), plain)
    except OSError as error:
        plain.close()
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except BaseException:
        plain.close()
        raise


def check_compression(path: Path) -> None:
    """Refuse a file name whose suffix asks for a compression that is not installed."""
    if path.suffix.lower() == ".zst":
        load_zstandard(path, "writing")


@contextlib.contextmanager
def compressed(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Return a file that compresses what is written to it into ``file``, by the suffix of ``path``.

    The suffixes are ``.gz``, ``.zst``, ``.xz`` and ``.bz2`` in any case; for others it is ``file`` itself.
    Equal content gives equal bytes.
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


def load_zstandard(path: str | Path, work: str) -> Any:
    """Import zstandard.

    Args:
        path: the file, for the message.
        work: what is to be done, ``reading`` or ``writing``.
    """
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(
            f"{path}: {work} zstd files needs zstandard: pip install 'uwaga[zstd]'"
        ) from None
    return zstandard


def read_lines(path: str | Path) -> Iterator[bytes | None]:
    """Yield the lines of a file without their ends, LF or CR LF; Unicode's line separators are text.

    A line of more than a megabyte is yielded as None. A UTF-8 byte order mark at the start is dropped.
    """
    number = 0
    file = open_bytes(path)
    try:
        start = file.peek(SAMPLE)[:SAMPLE]
        _refuse_binary(path, start)
        if start.startswith(b"\xef\xbb\xbf"):
            file.read(3)
        while line := file.readline(LONGEST_LINE):
            number += 1
            if line.endswith(b"\n"):
                yield line[:-2] if line.endswith(b"\r\n") else line[:-1]
            elif len(line) == LONGEST_LINE:
                while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                yield None
            else:
                yield line
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise damage(path, error, f"after line {number}") from None
    finally:
        file.close()


def damage(path: str | Path, error: Exception, where: str) -> DataError:
    """Return the error to raise for a failure of reading or decompressing a file at ``where``."""
    if isinstance(error, OSError) and error.errno is not None:
        return DataError(f"{path}: cannot be read {where}: {error.strerror or error}")
    return DataError(
        f"{path}: the compressed file is truncated or damaged {where} ({error}); fetch or compress it again"
    )


def text_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file."""
    return decoded(read_lines(path), str(path))


def decoded(raw: Iterable[bytes | None], name: str) -> Iterator[str]:
    r"""Decode lines of UTF-8; a final ``\n`` or ``\r\n`` is dropped.

    Args:
        raw: the lines, None for one that is too long.
        name: the name of the file, for messages.
    """
    for number, line in enumerate(raw, start=1):
        if line is None:
            raise DataError(f"{name}: line {number} is longer than any sentence: is this text, line by line?")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: line {number} is not UTF-8 at byte {error.start + 1}") from None
        yield text.removesuffix("\n").removesuffix("\r")


def _refuse_binary(path: str | Path, start: bytes) -> None:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: the text is UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`")
    control = len(start) - len(start.translate(None, _CONTROL))
    if control > MAX_CONTROL * len(start):
        raise DataError(f"{path}: a binary file, not UTF-8 text ({control} control bytes at its beginning)")

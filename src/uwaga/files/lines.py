"""Lines of plain or compressed text files, as bytes or as text, with every kind of damage reported."""

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
from uwaga.files.store import is_url, open_stream

LONGEST_LINE = 1 << 20  # bytes; what is longer is no sentence, and must not fill the memory
SAMPLE = 1 << 16
BLOCK = 1 << 17
GZIP_LEVEL = 6
MOST_CONTROL = 0.01  # share of control bytes in a text's beginning
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f"))


class _ZstdFile(io.RawIOBase):
    """Zstandard frames one after another; unlike zstandard's own reader, it notices a cut file."""

    def __init__(self, path: str | Path, file: io.BufferedReader) -> None:
        self._library = _zstandard(path, "reading")
        self._file = file
        self._frame = self._library.ZstdDecompressor().decompressobj()
        self._started = False
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        while not self._ready:
            if not self._fill():
                return 0
        taken = self._ready[: len(view)]
        view[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)

    def _fill(self) -> bool:
        left = b""
        if self._frame.eof:
            left = self._frame.unused_data
            self._frame = self._library.ZstdDecompressor().decompressobj()
            self._started = False
        block = left or self._file.read(BLOCK)
        if not block:
            if self._started:
                raise EOFError("it ends before its end-of-frame marker")
            return False
        self._started = True
        try:
            self._ready = self._frame.decompress(block)
        except self._library.ZstdError as error:
            raise EOFError(str(error)) from None
        return True


class _Unpacked(io.BufferedReader):
    """A decompressing file that closes what it reads from."""

    def __init__(self, unpacking: io.RawIOBase, packed: io.BufferedReader) -> None:
        super().__init__(unpacking, BLOCK)
        self._packed = packed

    def close(self) -> None:
        super().close()
        self._packed.close()


_COMPRESSED: tuple[tuple[bytes, Callable[[str | Path, io.BufferedReader], Any]], ...] = (
    (b"\x1f\x8b", lambda path, file: gzip.GzipFile(fileobj=file, mode="rb")),
    (b"\x28\xb5\x2f\xfd", _ZstdFile),
    (b"\xfd7zXZ\x00", lambda path, file: lzma.LZMAFile(file, mode="rb")),  # noqa: SIM115
    (b"BZh", lambda path, file: bz2.BZ2File(file, mode="rb")),
)


def open_bytes(path: str | Path) -> io.BufferedReader:
    """A file's decompressed bytes. What it is (gzip, zstd, xz, bzip2, plain) is told by its first bytes.

    Args:
        path: of a local file or pipe, or as a ``str`` the URL of an object, read as a stream.

    Raises:
        DataError: missing, unreadable, or a compressed pipe.
        MissingExtraError: a zstd file, and zstandard is not installed; or a URL, and what reads it is not.
    """
    plain = open_stream(path)
    return decompressed(plain, path, not is_url(path) and not Path(path).is_file())


def decompressed(plain: io.BufferedReader, path: str | Path, piped: bool = False) -> io.BufferedReader:
    """What is in an open file, which is closed with it; :func:`open_bytes` tells how and what it raises.

    Args:
        plain: the file, at its beginning.
        path: what it is called in messages.
        piped: it is a pipe, which cannot be gone back in.
    """
    try:
        start = plain.peek(6)
        opener = next((make for magic, make in _COMPRESSED if start.startswith(magic)), None)
        if opener is None:
            return plain
        if piped:
            raise DataError(f"{path}: a compressed pipe; decompress it on the way, for example with zcat")
        return _Unpacked(cast(io.RawIOBase, opener(path, plain)), plain)
    except OSError as error:
        plain.close()
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except BaseException:
        plain.close()
        raise


def check_compression(path: Path) -> None:
    """Refuse a file name that asks for a compression which is not installed.

    Raises:
        MissingExtraError: it ends in .zst, and zstandard is not installed.
    """
    if path.suffix.lower() == ".zst":
        _zstandard(path, "writing")


@contextlib.contextmanager
def compressed(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """A file that compresses what is written to it into ``file``, as the end of ``path`` says.

    ``.gz``, ``.zst``, ``.xz`` and ``.bz2``, in capitals too; for any other end it is ``file`` itself. Made
    again, the bytes are the same.

    Raises:
        MissingExtraError: as :func:`check_compression`.
    """
    kind = path.suffix.lower()
    if kind == ".gz":
        packed: Any = gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0)
    elif kind == ".xz":
        packed = lzma.LZMAFile(file, "wb")  # noqa: SIM115
    elif kind == ".bz2":
        packed = bz2.BZ2File(file, "wb")
    elif kind == ".zst":
        packed = _zstandard(path, "writing").ZstdCompressor().stream_writer(file, closefd=False)
    else:
        yield file
        return
    with packed:
        yield packed


def _zstandard(path: str | Path, work: str) -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(
            f"{path}: {work} zstd files needs zstandard: pip install 'uwaga[zstd]'"
        ) from None
    return zstandard


def read_lines(path: str | Path) -> Iterator[bytes | None]:
    """The lines of a file without their ends (LF or CR LF only: Unicode's own line separators are text).

    A line above a megabyte comes as None. A UTF-8 byte order mark at the start is dropped.

    Raises:
        DataError: missing, unreadable, cut short, damaged, or not text.
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
    """What to raise for an error of reading or decompressing a file, which came ``where``."""
    if isinstance(error, OSError) and error.errno is not None:
        return DataError(f"{path}: cannot be read {where}: {error.strerror or error}")
    return DataError(
        f"{path}: the compressed file is cut short or damaged {where} ({error}); fetch or compress it again"
    )


def text_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 text file.

    Raises:
        DataError: as :func:`read_lines` and :func:`decoded`.
    """
    return decoded(read_lines(path), str(path))


def decoded(raw: Iterable[bytes | None], name: str) -> Iterator[str]:
    r"""Lines as text; ``\n`` or ``\r\n`` at their ends is dropped, None stands for one beyond all bounds.

    Raises:
        DataError: a line that is not UTF-8 or is too long; names ``name`` and the line.
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
    if control > MOST_CONTROL * len(start):
        raise DataError(f"{path}: a binary file, not UTF-8 text ({control} control bytes at its beginning)")

"""Translate the lines of standard input with libuwaga, by ctypes alone.

python translate.py libuwaga.so FOLDER < source.txt > target.txt
"""

import ctypes
import sys


class Error(ctypes.Structure):
    """The error of a call: a code and a message."""

    _fields_ = (("code", ctypes.c_int), ("message", ctypes.c_char * 508))


def main() -> int:
    """Translate line by line; return the exit status."""
    library = ctypes.CDLL(sys.argv[1])
    library.uwaga_result_text.restype = ctypes.c_char_p
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.uwaga_result_text.argtypes = (pointer, size, size, pointer)
    library.uwaga_result_free.argtypes = library.uwaga_close.argtypes = (pointer,)
    model, error = pointer(), Error()
    if library.uwaga_open_folder(sys.argv[2].encode(), None, ctypes.byref(model), ctypes.byref(error)):
        sys.exit(error.message.decode())
    for line in sys.stdin:
        text, result = (ctypes.c_char_p * 1)(line.rstrip("\r\n").encode()), pointer()
        given = model, text, None, size(1), None, None, ctypes.byref(result), ctypes.byref(error)
        if library.uwaga_translate(*given):
            sys.exit(error.message.decode())
        print(library.uwaga_result_text(result, 0, 0, None).decode())
        library.uwaga_result_free(result)
    library.uwaga_close(model)
    return 0


if __name__ == "__main__":
    sys.exit(main())

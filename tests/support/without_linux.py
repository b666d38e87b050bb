"""Remove Linux and POSIX functions from uwaga's modules in processes started with :func:`environment`.

The standard library and dependencies keep them, since they have builds for other systems.
"""

import builtins
import fnmatch
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

MODULES = ("fcntl", "grp", "msvcrt", "pwd", "resource", "termios", "tty")
NAMES = {
    "ctypes": ("CDLL",),
    "mmap": ("MADV_*", "MAP_*", "PROT_*"),
    "os": (
        *("O_CLOEXEC", "O_DIRECTORY", "O_DSYNC", "O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "O_TMPFILE", "PRIO_*"),
        *(
            "chown", "copy_file_range", "fchmod", "fchown", "fork*", "getegid", "geteuid", "getgid",
            "getgroups",
        ),
        *("getloadavg", "getpgid", "getpriority", "getuid", "killpg", "mkfifo", "nice", "posix_*", "pread*"),
        *("pwrite*", "register_at_fork", "sched_*", "sendfile", "setpriority", "setsid", "statvfs", "sync"),
        *("sysconf", "uname", "wait*"),
    ),
    "signal": ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR*", "pthread_*"),
    "socket": ("AF_UNIX", "SO_REUSEPORT"),
}  # fmt: skip
"""Patterns of names that are missing on other systems, by module."""
VALUES = {"sys": {"platform": "other"}}
FOLDERS = ("/proc/", "/sys/")


class Stripped(ModuleType):
    """A module without some of its names; assignments set attributes of the original module."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(_whole=module)

    def __getattr__(self, name: str) -> object:
        if name in VALUES.get(self.__name__, {}):
            return VALUES[self.__name__][name]
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in NAMES.get(self.__name__, ())):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} here")
        return getattr(self.__dict__["_whole"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.__dict__["_whole"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_whole"], name)


def remove_linux() -> None:
    """Remove the names from modules of uwaga that are imported after this call."""
    original_import = builtins.__import__
    stripped: dict[str, ModuleType] = {}

    def import_without(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        importer = str((globals or {}).get("__name__", ""))
        from_uwaga = level == 0 and importer.startswith("uwaga")
        if from_uwaga and name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r} here", name=name)
        module = original_import(name, globals, locals, fromlist, level)
        if from_uwaga and module.__name__ in {*NAMES, *VALUES}:
            return stripped.setdefault(module.__name__, Stripped(module))
        return module

    def refuse_folders(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(FOLDERS):
            raise FileNotFoundError(2, "there is none here", arguments[0])

    builtins.__import__ = import_without
    sys.addaudithook(refuse_folders)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process without these names; ``folder`` gets Python's startup file."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import without_linux\nwithout_linux.remove_linux()\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parent), *sys.path])}

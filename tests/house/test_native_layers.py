"""Files in native/ include only files of folders below theirs in the table of native/README.md."""

import re
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"
SUFFIXES = {".h", ".cpp", ".inl"}


def layers() -> list[str]:
    """Return the folders of the table, from the highest to the lowest layer."""
    return re.findall(r"^\| `(\w+)/` \|", (NATIVE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)


def includes() -> dict[str, set[str]]:
    """Return for each folder except tests the other folders whose files it includes."""
    graph: dict[str, set[str]] = {folder: set() for folder in layers() if folder != "tests"}
    for folder in graph:
        for path in (NATIVE / folder).rglob("*"):
            if path.suffix in SUFFIXES:
                included = re.findall(r'^\s*#include "(\w+)/', path.read_text(encoding="utf-8"), re.MULTILINE)
                graph[folder].update(name for name in included if (NATIVE / name).is_dir())
        graph[folder].discard(folder)
    return graph


def test_layer_table_lists_all_native_folders() -> None:
    assert sorted(layers()) == sorted(
        path.name for path in NATIVE.iterdir() if any(file.suffix in SUFFIXES for file in path.rglob("*"))
    )


def test_native_folders_include_only_lower_layers() -> None:
    order = layers()
    for folder, included in includes().items():
        assert included <= set(order[order.index(folder) + 1 :]), folder


def test_native_networks_are_used_only_through_their_interface() -> None:
    graph = includes()
    for folder in ("transformer", "recurrent", "output", "search", "c"):
        assert graph[folder].isdisjoint({"transformer", "recurrent"}), folder
    assert graph["text"] == graph["kernels"] == set()

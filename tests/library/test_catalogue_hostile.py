"""Hostile catalogues: each fault is named in an error, and no file is downloaded or changed."""

import gzip
import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_server import FAST_LIMITS, model_files, serve_catalogue, serve_models

from uwaga import library as catalogue
from uwaga.errors import CatalogueError, UwagaError
from uwaga.library import Limits
from uwaga.library.entry import RemoteFile
from uwaga.library.fetch import unpack

LIMITS = Limits(**FAST_LIMITS)
FILES = model_files("en-pt", 5000)
MODEL = "model.enpt.intgemm.alphas.bin"
ODD_VALUES = [None, True, -1, 0, 1.5, 10**30, "", "x", "../x", "a\x1b[31mb", "\u202e", [], [1], {}, {"a": 1}]


@pytest.fixture(scope="module")
def server():
    with serve_models() as mirror:
        yield mirror


@pytest.fixture
def entry(server):
    """Return the only entry of a catalogue; modify it, then serve it with ``entry["serve"]()``."""
    values = serve_catalogue(server, {("en-pt", "tiny"): FILES})
    (entry,) = values["models"]["en-pt"]
    entry["serve"] = lambda: server.put("models.json", without_functions(values))
    return entry


def without_functions(values: object) -> object:
    if isinstance(values, dict):
        return {key: without_functions(value) for key, value in values.items() if not callable(value)}
    return [without_functions(value) for value in values] if isinstance(values, list) else values


def assert_refused(server, tmp_path: Path, match: str, **options: object) -> str:
    server.requests.clear()
    with pytest.raises(CatalogueError, match=match) as caught:
        catalogue.download(
            "en-pt",
            **({"mirror": server.url} | options),
            limits=LIMITS,
            environment={"UWAGA_HOME": str(tmp_path)},
        )
    assert str(caught.value).replace("\n", "").isprintable()
    return str(caught.value)


def try_listing(mirror: str) -> tuple[catalogue.Listing, str]:
    """Return the listing of a mirror, empty after an error, and the error message or an empty string."""
    try:
        return catalogue.listing(mirror=mirror, limits=LIMITS), ""
    except UwagaError as error:
        return catalogue.Listing(()), str(error)


UNSAFE_PATHS = [
    *("../../etc/passwd", "/etc/passwd", "a/../../b.gz", "a//b.gz", "a\\..\\b", "./a", "a/.", "a/.hidden"),
    *("https://evil.example/x.gz", "//evil.example/x", "a?b", "a#b", "a%2e%2e/b", "a b", "a\nb", "a\x00b"),
    *(
        "", "/", ".", "..", "a" * 5000, "\u202egz.exe", "origin.json", "x/origin.json.gz", "CARD.md.gz",
        ".gz", "é.gz",
    ),
    *(None, 1, [], {}),
]  # fmt: skip


@pytest.mark.parametrize("path", UNSAFE_PATHS)
@pytest.mark.parametrize("kind", ["model", "vocab"])
def test_unsafe_file_paths_are_refused(server, entry, tmp_path, path, kind):
    entry["files"][kind]["path"] = path
    entry["serve"]()
    assert_refused(server, tmp_path, "refused|is missing")
    assert [request_path for request_path, _ in server.requests] == ["/models.json"]
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("size", [0, -1, 10**12, 1.5, True, "5000", None, [], 10**400])
def test_invalid_file_sizes_are_refused(server, entry, tmp_path, size):
    entry["files"]["model"]["uncompressedSize"] = size
    entry["serve"]()
    assert_refused(server, tmp_path, "uncompressedSize")
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("size", [4999, 5001, 1, 6000])
def test_file_of_the_wrong_size_is_refused(server, entry, tmp_path, size):
    entry["files"]["model"]["uncompressedSize"] = size
    entry["serve"]()
    assert_refused(
        server,
        tmp_path,
        rf"{MODEL}: (unpacks to more than|has 5000 bytes when unpacked)|has 50\d\d bytes, more than",
    )
    assert not [path for path in (tmp_path / "models").iterdir() if not path.name.startswith(".")]


@pytest.mark.parametrize("value", ["", "0" * 63, "g" * 64, 1, None, [], "0" * 64])
def test_files_with_wrong_hashes_are_refused(server, entry, tmp_path, value):
    entry["files"]["model"]["uncompressedHash"] = value
    entry["serve"]()
    assert_refused(server, tmp_path, "uncompressedHash|SHA-256")


@pytest.mark.parametrize(
    "key", ["architecture", "sourceLanguage", "targetLanguage", "releaseStatus", "files"]
)
@pytest.mark.parametrize("value", ODD_VALUES)
def test_values_of_wrong_types_give_printable_error_messages(server, entry, tmp_path, key, value):
    entry[key] = value
    entry["serve"]()
    listing, error = try_listing(server.url)
    assert error.isprintable()
    for model in listing.entries:
        assert json.dumps(model.to_dict(), ensure_ascii=False).isprintable()
        assert "/" not in model.name and ".." not in model.name
    assert all(problem.isprintable() for problem in listing.problems)


@pytest.mark.parametrize(
    "metrics", [[], {"flores": []}, {"flores": {"bleu": "high"}}, {"flores": {"bleu": True}}]
)
def test_non_numeric_metrics_are_refused(server, entry, tmp_path, metrics):
    entry["metrics"] = metrics
    entry["serve"]()
    assert_refused(server, tmp_path, "metrics|bleu")


def test_refused_catalogue_entry_does_not_affect_other_entries(server, tmp_path):
    values = serve_catalogue(
        server, {("en-pt", "tiny"): FILES, ("en-de", "tiny"): model_files("en-de", 5000)}
    )
    values["models"]["en-de"][0]["files"]["model"]["path"] = "../x"
    server.put("models.json", values)
    listing = catalogue.listing(mirror=server.url, limits=LIMITS)
    assert [entry.pair for entry in listing.entries] == ["en-pt"]
    assert len(listing.problems) == 1 and "'en-de'" in listing.problems[0]
    with pytest.raises(CatalogueError, match="entries of that pair were refused"):
        catalogue.download(
            "en-de", mirror=server.url, limits=LIMITS, environment={"UWAGA_HOME": str(tmp_path)}
        )


def test_model_with_a_null_status_is_unreleased(server, entry):
    """The catalogue also lists models that were trained but never deployed."""
    entry["releaseStatus"] = None
    entry["serve"]()
    assert catalogue.available(mirror=server.url, limits=LIMITS) == []
    (model,) = catalogue.available(mirror=server.url, limits=LIMITS, include_unreleased=True)
    assert not model.released and model.status == ""


def test_duplicate_entries_keys_and_file_names_are_refused(server, entry, tmp_path):
    values = serve_catalogue(server, {("en-pt", "tiny"): FILES})
    values["models"]["en-pt"] *= 2
    server.put("models.json", values)
    listing = catalogue.listing(mirror=server.url, limits=LIMITS)
    assert len(listing.entries) == 1 and "firefox-en-pt-tiny is listed twice" in listing.problems[0]
    text = json.dumps(serve_catalogue(server, {("en-pt", "tiny"): FILES}))
    server.put("models.json", text.replace('"files":', '"files": {}, "files":').encode())
    assert_refused(server, tmp_path, "duplicate key 'files'")
    entry["files"]["vocab"] = dict(entry["files"]["lexicalShortlist"])
    entry["serve"]()
    assert_refused(server, tmp_path, "two files have the same name")


def test_entries_without_a_vocabulary_or_with_a_wrong_language_pair_are_refused(server, entry, tmp_path):
    vocabulary = entry["files"].pop("vocab")
    entry["serve"]()
    assert_refused(server, tmp_path, "has neither vocab nor")
    entry["files"]["vocab"] = vocabulary
    entry["targetLanguage"] = "es"
    entry["serve"]()
    assert_refused(server, tmp_path, "translates en-es but is listed as 'en-pt'")


INVALID_CATALOGUES = [
    *(b"", b"{", b"null", b"[]", b"1", b'"x"', b"<html>Log in</html>", b"\xff\xfe", b"[" * 100_000),
    *(b'{"models": []}', b'{"models": {"en-pt": {}}}', b'{"models": {"en-pt": [[]]}}', b'{"a": NaN}', b"{}"),
    gzip.compress(b"{}"),
]


@pytest.mark.parametrize("content", INVALID_CATALOGUES, ids=range(len(INVALID_CATALOGUES)))
@pytest.mark.parametrize("source", ["firefox", "firefox-records", "argos"])
def test_invalid_catalogues_are_refused(server, tmp_path, source, content):
    for name in ("models.json", "records.json", "index.json"):
        server.put(name, content)
    text = assert_refused(server, tmp_path, ".", from_source=source)
    assert server.url in text or "there is no model" in text


def test_download_of_an_endless_catalogue_is_aborted(server, tmp_path, monkeypatch):
    monkeypatch.setattr("uwaga.library.sources.firefox.MAX_CATALOGUE_BYTES", 1 << 20)
    server.put("models.json", b"{", endless=True, lengthless=True)
    assert_refused(server, tmp_path, "more than 1048576 bytes")


@pytest.mark.parametrize(
    "mirror", ["", "ftp://x/y", "file:///etc", "http://", "https://[", "/nowhere", "s3://b", "x\n"]
)
def test_invalid_mirror_addresses_are_refused(server, tmp_path, mirror):
    assert_refused(server, tmp_path, "mirror|address must begin with", mirror=mirror)


def test_http_base_url_is_refused(monkeypatch, server, entry):
    monkeypatch.setattr("uwaga.library.sources.firefox.ADDRESS", server.url)
    server.paths["/db/models.json"] = server.paths["/models.json"]
    (model,) = catalogue.available(limits=LIMITS, environment={})
    assert model.files[0].locations[0].startswith("https://storage.invalid/bucket/models/")
    values = json.loads(server.paths["/models.json"].body) | {"baseUrl": "http://storage.invalid"}
    server.put("db/models.json", values)
    with pytest.raises(CatalogueError, match="is not an https:// URL"):
        catalogue.available(limits=LIMITS, environment={})


def test_urls_of_model_files_start_with_the_mirror_url(server, entry):
    (model,) = catalogue.available(mirror=server.url, limits=LIMITS)
    assert all(file.locations[0].startswith(server.url) for file in model.files)


INVALID_CALLS = [
    *(lambda: catalogue.download(None), lambda: catalogue.download(5), lambda: catalogue.download(["en-pt"])),
    *(lambda: catalogue.download("e" * 10**6), lambda: catalogue.download("-" * 10**6)),
    *(lambda: catalogue.download("en-pt", from_source=3), lambda: catalogue.download("en-pt", mirror=5)),
    *(
        lambda: catalogue.available(source=5),
        lambda: catalogue.available("no code"),
        lambda: catalogue.path(None),
    ),
    *(lambda: catalogue.remove(None), lambda: catalogue.remove(5), lambda: catalogue.find_installed(5)),
    *(lambda: Limits(attempts=0), lambda: Limits(timeout=-1), lambda: Limits(timeout=float("nan"))),
    *(lambda: Limits(parallel_files=0), lambda: Limits(pause="1"), lambda: Limits(window=float("inf"))),
]


@pytest.mark.parametrize("call", INVALID_CALLS, ids=range(len(INVALID_CALLS)))
def test_invalid_arguments_raise_uwaga_errors(call, tmp_path, monkeypatch):
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path))
    monkeypatch.setenv("UWAGA_FIREFOX_URL", str(tmp_path))
    (tmp_path / "models.json").write_text('{"models": {}}')
    with pytest.raises(UwagaError):
        call()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "/", "../models", "a/b", ".incomplete", ".locks", "\0", "a\n"]
)
def test_remove_refuses_invalid_model_names(tmp_path, name):
    (tmp_path / "models/.locks").mkdir(parents=True)
    environment = {"UWAGA_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "HF_HOME": str(tmp_path)}
    with pytest.raises(CatalogueError, match="no installed model"):
        catalogue.remove(name, environment)
    assert (tmp_path / "models/.locks").is_dir()


def serve_records(
    server, files: dict[str, bytes], version: str = "2.0", **overrides: object
) -> list[dict[str, object]]:
    zstandard = pytest.importorskip("zstandard")
    kinds = {"m": "model", "l": "lex", "v": "vocab"}
    values = []
    for name, content in files.items():
        packed = zstandard.ZstdCompressor().compress(content)
        location = f"main-workspace/translations-models-v2/{version}-{name}.zst"
        server.put(location, packed)
        values.append(
            {
                **{"name": name, "version": version, "sourceLanguage": "en", "targetLanguage": "pt"},
                **{"architecture": "tiny", "fileType": kinds[name[0]], "filter_expression": ""},
                "decompressedHash": hashlib.sha256(content).hexdigest(),
                "decompressedSize": len(content),
                "attachment": {
                    **{"location": location, "size": len(packed), "filename": f"{name}.zst"},
                    **{"hash": hashlib.sha256(packed).hexdigest(), "mimetype": "application/zstd"},
                },
            }
            | overrides
        )
    return values


def test_downloads_listed_in_firefox_records_are_verified(server, tmp_path):
    older, newer = model_files("en-pt", 5000), model_files("xx-yy", 6000)
    newer = dict(zip(older, newer.values(), strict=True))
    data = [
        *serve_records(server, newer, "2.1"),
        *serve_records(server, older, "2.1a3"),
        *serve_records(server, older, "1.9"),
    ]
    server.put("records.json", {"data": data})
    options = {"mirror": server.url, "from_source": "firefox-records", "limits": LIMITS}
    folder = catalogue.download("en-pt", **options, environment={"UWAGA_HOME": str(tmp_path)})
    assert all((folder / name).read_bytes() == content for name, content in newer.items())
    assert folder.name == "firefox-records-en-pt-tiny"
    for key, value, message in (
        ("hash", "0" * 64, "SHA-256"),
        ("size", 17, "catalogue states 17"),
        ("location", "../x", "location"),
    ):
        changed = serve_records(server, newer, "2.1")
        changed[0]["attachment"][key] = value
        server.put("records.json", {"data": changed})
        assert_refused(server, tmp_path / key, message, from_source="firefox-records")
    for key, value in (
        ("decompressedHash", "0" * 64),
        ("decompressedSize", 5999),
        ("decompressedSize", 7000),
    ):
        changed = serve_records(server, newer, "2.1", **{key: value})
        server.put("records.json", {"data": changed})
        assert_refused(
            server,
            tmp_path / f"{key}{value}",
            "catalogue states|allowed; unpacking was stopped",
            from_source="firefox-records",
        )


def test_decompression_of_a_zstd_bomb_is_aborted(server, tmp_path):
    data = serve_records(server, FILES)
    zstandard = pytest.importorskip("zstandard")
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 27))
    data[0]["attachment"] |= {"size": len(bomb), "hash": hashlib.sha256(bomb).hexdigest()}
    server.put(data[0]["attachment"]["location"], bomb)
    server.put("records.json", {"data": data})
    assert_refused(server, tmp_path, "unpacks to more than the 5000 bytes", from_source="firefox-records")


@pytest.mark.parametrize("cut", [20, 1000, -1])
def test_truncated_zstd_file_is_refused(tmp_path, cut):
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "sent").write_bytes(zstandard.ZstdCompressor().compress(FILES[MODEL])[:cut])
    with pytest.raises(CatalogueError, match=f"{MODEL}: the file was damaged or truncated"):
        unpack(tmp_path / "sent", tmp_path / "out", RemoteFile(MODEL, (), "zstd"))


def test_firefox_records_with_missing_files_or_an_invalid_version_are_refused(server, tmp_path):
    server.put("records.json", {"data": serve_records(server, FILES)[:2]})
    assert_refused(server, tmp_path, "incomplete", from_source="firefox-records")
    server.put("records.json", {"data": serve_records(server, FILES, "new")})
    assert_refused(server, tmp_path, "version is 'new'", from_source="firefox-records")


def package(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in members.items():
            file.writestr(f"translate-en_pt-1_0/{name.replace('__', '/')}", content)
    return packed.getvalue()


def serve_argos(server, content: bytes, *links: str, **overrides: object) -> None:
    server.put("translate-en_pt-1_0.argosmodel", content)
    link = f"{server.url}/translate-en_pt-1_0.argosmodel"
    entry = {
        "from_code": "en", "to_code": "pt", "package_version": "1.0", "links": [*links, link],
    } | overrides  # fmt: skip
    server.put("index.json", [entry])


def test_argos_packages_are_downloaded_or_refused(server, tmp_path):
    names = {"metadata.json": b"{}", "model__model.bin": b"weights" * 99, "sentencepiece.model": b"pieces"}
    content = package(**names)
    serve_argos(server, content, "ipfs://QmX")
    options = {"mirror": server.url, "from_source": "argos", "limits": LIMITS}
    path = catalogue.download("en-pt", **options, environment={"UWAGA_HOME": str(tmp_path)})
    assert path.name == "translate-en_pt-1_0.argosmodel" and path.read_bytes() == content
    by_name = {"mirror": server.url, "limits": LIMITS, "environment": {"UWAGA_HOME": str(tmp_path / "g")}}
    assert catalogue.download("argos-en-pt", **by_name).name == path.name  # the name identifies the source
    assert path.parent.name == "argos-en-pt" and (path.parent / "card.md").is_file()
    serve_argos(server, content.replace(b"weightsweights", b"weightsWeights", 1))
    assert_refused(server, tmp_path / "a", "argosmodel.*(CRC|sum|damaged)", from_source="argos")
    serve_argos(server, content[:-30])
    assert_refused(server, tmp_path / "b", "argosmodel", from_source="argos")
    serve_argos(server, package(**{"../../evil": b"x"} | names))
    assert_refused(server, tmp_path / "c", "outside", from_source="argos")
    serve_argos(server, b"<html>Not here</html>")
    assert_refused(server, tmp_path / "d", "argosmodel", from_source="argos")
    serve_argos(server, content, links=["ipfs://QmX"])
    assert_refused(server, tmp_path / "e", "no HTTP link", from_source="argos")
    serve_argos(server, content, links=["https://x.example/../../.bashrc"])
    assert_refused(server, tmp_path / "f", "refused", from_source="argos")


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(ODD_VALUES[5:11])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_mutated_catalogue_is_listed_or_raises_catalogue_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("mirror")
    files = {
        "model": {"path": "a/model.enpt.bin.gz", "uncompressedSize": 5, "uncompressedHash": "0" * 64},
        "vocab": {"path": "a/vocab.enpt.spm.gz"},
    }
    model = {
        "architecture": "tiny", "releaseStatus": "Release", "files": files, "metrics": {"x": {"bleu": 1}},
    }  # fmt: skip
    root: dict[str, object] = {"baseUrl": "https://x", "models": {"en-pt": [model]}}
    node: object = root
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(node[key], dict | list) or not node[key]:
            node[key] = data.draw(VALUES)
            break
        node = node[key]
    (folder / "models.json").write_text(json.dumps(root))
    listing, error = try_listing(str(folder))
    assert error.isprintable()
    for entry in listing.entries:
        assert all(Path(file.locations[0]).resolve().is_relative_to(folder.resolve()) for file in entry.files)

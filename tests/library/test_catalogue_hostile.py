"""Catalogues that lie: each lie is refused by name, nothing is fetched and nothing outside is touched."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_server import FAST, contents, serving, storage

from uwaga import library as catalogue
from uwaga.errors import CatalogueError, UwagaError
from uwaga.library import Limits
from uwaga.library.entry import RemoteFile
from uwaga.library.fetch import unpack

LIMITS = Limits(**FAST)
FILES = contents("en-pt", 5000)
MODEL = "model.enpt.intgemm.alphas.bin"
ODD = [None, True, -1, 0, 1.5, 10**30, "", "x", "../x", "a\x1b[31mb", "\u202e", [], [1], {}, {"a": 1}]


@pytest.fixture(scope="module")
def server():
    with serving() as found:
        yield found


@pytest.fixture
def listed(server):
    """The catalogue's one model, to be changed and served with ``serve``."""
    found = storage(server, {("en-pt", "tiny"): FILES})
    (entry,) = found["models"]["en-pt"]
    entry["serve"] = lambda: server.put("models.json", clean(found))
    return entry


def clean(values: object) -> object:
    if isinstance(values, dict):
        return {key: clean(one) for key, one in values.items() if not callable(one)}
    return [clean(one) for one in values] if isinstance(values, list) else values


def refused(server, tmp_path: Path, match: str, **options: object) -> str:
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


def attempted(mirror: str) -> tuple[catalogue.Listing, str]:
    """What a mirror lists, or the error of ours that it makes."""
    try:
        return catalogue.listing(mirror=mirror, limits=LIMITS), ""
    except UwagaError as error:
        return catalogue.Listing(()), str(error)


PATHS = [
    *("../../etc/passwd", "/etc/passwd", "a/../../b.gz", "a//b.gz", "a\\..\\b", "./a", "a/.", "a/.hidden"),
    *("https://evil.example/x.gz", "//evil.example/x", "a?b", "a#b", "a%2e%2e/b", "a b", "a\nb", "a\x00b"),
    *(
        "",
        "/",
        ".",
        "..",
        "a" * 5000,
        "\u202egz.exe",
        "origin.json",
        "x/origin.json.gz",
        "CARD.md.gz",
        ".gz",
        "é.gz",
    ),
    *(None, 1, [], {}),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["model", "vocab"])
def test_paths_that_are_no_plain_names_are_refused(server, listed, tmp_path, path, kind):
    listed["files"][kind]["path"] = path
    listed["serve"]()
    refused(server, tmp_path, "refused|is missing")
    assert [one for one, _ in server.requests] == ["/models.json"]
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("size", [0, -1, 10**12, 1.5, True, "5000", None, [], 10**400])
def test_absurd_sizes_are_refused(server, listed, tmp_path, size):
    listed["files"]["model"]["uncompressedSize"] = size
    listed["serve"]()
    refused(server, tmp_path, "uncompressedSize")
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("lie", [4999, 5001, 1, 6000])
def test_a_size_that_is_not_the_files_is_refused(server, listed, tmp_path, lie):
    listed["files"]["model"]["uncompressedSize"] = lie
    listed["serve"]()
    refused(
        server, tmp_path, rf"{MODEL}: (unpacks to more than|5000 bytes unpacked)|has 50\d\d bytes, more than"
    )
    assert not [one for one in (tmp_path / "models").iterdir() if not one.name.startswith(".")]


@pytest.mark.parametrize("value", ["", "0" * 63, "g" * 64, 1, None, [], "0" * 64])
def test_hashes_that_are_none_or_others_are_refused(server, listed, tmp_path, value):
    listed["files"]["model"]["uncompressedHash"] = value
    listed["serve"]()
    refused(server, tmp_path, "uncompressedHash|SHA-256")


@pytest.mark.parametrize(
    "key", ["architecture", "sourceLanguage", "targetLanguage", "releaseStatus", "files"]
)
@pytest.mark.parametrize("value", ODD)
def test_values_of_wrong_kinds_are_refused_or_harmless(server, listed, tmp_path, key, value):
    listed[key] = value
    listed["serve"]()
    found, error = attempted(server.url)
    assert error.isprintable()
    for entry in found.entries:
        assert json.dumps(entry.to_dict(), ensure_ascii=False).isprintable()
        assert "/" not in entry.name and ".." not in entry.name
    assert all(problem.isprintable() for problem in found.problems)


@pytest.mark.parametrize(
    "metrics", [[], {"flores": []}, {"flores": {"bleu": "high"}}, {"flores": {"bleu": True}}]
)
def test_metrics_that_are_no_numbers_are_refused(server, listed, tmp_path, metrics):
    listed["metrics"] = metrics
    listed["serve"]()
    refused(server, tmp_path, "metrics|bleu")


def test_a_refused_entry_does_not_take_the_others_with_it(server, tmp_path):
    found = storage(server, {("en-pt", "tiny"): FILES, ("en-de", "tiny"): contents("en-de", 5000)})
    found["models"]["en-de"][0]["files"]["model"]["path"] = "../x"
    server.put("models.json", found)
    listing = catalogue.listing(mirror=server.url, limits=LIMITS)
    assert [one.pair for one in listing.entries] == ["en-pt"]
    assert len(listing.problems) == 1 and "'en-de'" in listing.problems[0]
    with pytest.raises(CatalogueError, match="entries of that pair were refused"):
        catalogue.download(
            "en-de", mirror=server.url, limits=LIMITS, environment={"UWAGA_HOME": str(tmp_path)}
        )


def test_a_model_whose_status_is_null_is_not_released(server, listed):
    """The storage lists these too: what was trained and never deployed."""
    listed["releaseStatus"] = None
    listed["serve"]()
    assert catalogue.available(mirror=server.url, limits=LIMITS) == []
    (entry,) = catalogue.available(mirror=server.url, limits=LIMITS, every=True)
    assert not entry.released and entry.status == ""


def test_names_that_are_there_twice_are_refused(server, listed, tmp_path):
    found = storage(server, {("en-pt", "tiny"): FILES})
    found["models"]["en-pt"] *= 2
    server.put("models.json", found)
    listing = catalogue.listing(mirror=server.url, limits=LIMITS)
    assert len(listing.entries) == 1 and "firefox-en-pt-tiny is listed twice" in listing.problems[0]
    text = json.dumps(storage(server, {("en-pt", "tiny"): FILES}))
    server.put("models.json", text.replace('"files":', '"files": {}, "files":').encode())
    refused(server, tmp_path, "duplicate key 'files'")
    listed["files"]["vocab"] = dict(listed["files"]["lexicalShortlist"])
    listed["serve"]()
    refused(server, tmp_path, "two files have the same name")


def test_a_model_without_a_vocabulary_or_of_another_pair_is_refused(server, listed, tmp_path):
    kept = listed["files"].pop("vocab")
    listed["serve"]()
    refused(server, tmp_path, "no vocab")
    listed["files"]["vocab"] = kept
    listed["targetLanguage"] = "es"
    listed["serve"]()
    refused(server, tmp_path, "translates en-es and is listed as 'en-pt'")


NO_CATALOGUES = [
    *(b"", b"{", b"null", b"[]", b"1", b'"x"', b"<html>Log in</html>", b"\xff\xfe", b"[" * 100_000),
    *(b'{"models": []}', b'{"models": {"en-pt": {}}}', b'{"models": {"en-pt": [[]]}}', b'{"a": NaN}', b"{}"),
    gzip.compress(b"{}"),
]


@pytest.mark.parametrize("content", NO_CATALOGUES, ids=range(len(NO_CATALOGUES)))
@pytest.mark.parametrize("source", ["firefox", "firefox-records", "argos"])
def test_what_is_no_catalogue_is_refused_by_name(server, tmp_path, source, content):
    for name in ("models.json", "records.json", "index.json"):
        server.put(name, content)
    text = refused(server, tmp_path, ".", from_source=source)
    assert server.url in text or "there is no model" in text


def test_a_catalogue_without_end_is_stopped(server, tmp_path, monkeypatch):
    monkeypatch.setattr("uwaga.library.sources.firefox.LARGEST_CATALOGUE", 1 << 20)
    server.put("models.json", b"{", endless=True, lengthless=True)
    refused(server, tmp_path, "more than 1048576 bytes")


@pytest.mark.parametrize(
    "mirror", ["", "ftp://x/y", "file:///etc", "http://", "https://[", "/nowhere", "s3://b", "x\n"]
)
def test_mirrors_that_are_none_are_refused(server, tmp_path, mirror):
    refused(server, tmp_path, "mirror|refused", mirror=mirror)


def test_a_plain_base_address_in_the_real_catalogue_is_refused(monkeypatch, server, listed):
    monkeypatch.setattr("uwaga.library.sources.firefox.ADDRESS", server.url)
    server.paths["/db/models.json"] = server.paths["/models.json"]
    (entry,) = catalogue.available(limits=LIMITS, environment={})
    assert entry.files[0].locations[0].startswith("https://storage.invalid/bucket/models/")
    found = json.loads(server.paths["/models.json"].body) | {"baseUrl": "http://storage.invalid"}
    server.put("db/models.json", found)
    with pytest.raises(CatalogueError, match="is not an https:// URL"):
        catalogue.available(limits=LIMITS, environment={})


def test_files_of_a_mirror_are_below_it_whatever_its_catalogue_says(server, listed):
    (entry,) = catalogue.available(mirror=server.url, limits=LIMITS)
    assert all(one.locations[0].startswith(server.url) for one in entry.files)


CALLS = [
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
    *(lambda: Limits(together=0), lambda: Limits(pause="1"), lambda: Limits(window=float("inf"))),
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_calls_with_values_of_wrong_kinds_are_errors_of_ours(call, tmp_path, monkeypatch):
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path))
    monkeypatch.setenv("UWAGA_FIREFOX_URL", str(tmp_path))
    (tmp_path / "models.json").write_text('{"models": {}}')
    with pytest.raises(UwagaError):
        call()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "/", "../models", "a/b", ".incomplete", ".locks", "\0", "a\n"]
)
def test_names_that_are_none_are_not_removed(tmp_path, name):
    (tmp_path / "models/.locks").mkdir(parents=True)
    environment = {"UWAGA_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "HF_HOME": str(tmp_path)}
    with pytest.raises(CatalogueError, match="no installed model"):
        catalogue.remove(name, environment)
    assert (tmp_path / "models/.locks").is_dir()


def records(
    server, files: dict[str, bytes], version: str = "2.0", **changed: object
) -> list[dict[str, object]]:
    zstandard = pytest.importorskip("zstandard")
    kinds = {"m": "model", "l": "lex", "v": "vocab"}
    found = []
    for name, content in files.items():
        packed = zstandard.ZstdCompressor().compress(content)
        location = f"main-workspace/translations-models-v2/{version}-{name}.zst"
        server.put(location, packed)
        found.append(
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
            | changed
        )
    return found


def test_records_are_verified_packed_and_unpacked(server, tmp_path):
    older, newer = contents("en-pt", 5000), contents("xx-yy", 6000)
    newer = dict(zip(older, newer.values(), strict=True))
    data = [*records(server, newer, "2.1"), *records(server, older, "2.1a3"), *records(server, older, "1.9")]
    server.put("records.json", {"data": data})
    options = {"mirror": server.url, "from_source": "firefox-records", "limits": LIMITS}
    folder = catalogue.download("en-pt", **options, environment={"UWAGA_HOME": str(tmp_path)})
    assert all((folder / name).read_bytes() == content for name, content in newer.items())
    assert folder.name == "firefox-records-en-pt-tiny"
    for key, value, message in (
        ("hash", "0" * 64, "SHA-256"),
        ("size", 17, "catalogue says 17"),
        ("location", "../x", "location"),
    ):
        changed = records(server, newer, "2.1")
        changed[0]["attachment"][key] = value
        server.put("records.json", {"data": changed})
        refused(server, tmp_path / key, message, from_source="firefox-records")
    for key, value in (
        ("decompressedHash", "0" * 64),
        ("decompressedSize", 5999),
        ("decompressedSize", 7000),
    ):
        changed = records(server, newer, "2.1", **{key: value})
        server.put("records.json", {"data": changed})
        refused(server, tmp_path / f"{key}{value}", "catalogue says|may have", from_source="firefox-records")


def test_a_zstd_bomb_is_stopped(server, tmp_path):
    data = records(server, FILES)
    zstandard = pytest.importorskip("zstandard")
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 27))
    data[0]["attachment"] |= {"size": len(bomb), "hash": hashlib.sha256(bomb).hexdigest()}
    server.put(data[0]["attachment"]["location"], bomb)
    server.put("records.json", {"data": data})
    refused(server, tmp_path, "unpacks to more than the 5000 bytes", from_source="firefox-records")


@pytest.mark.parametrize("cut", [20, 1000, -1])
def test_a_zstd_file_without_a_stated_size_is_refused_if_it_is_cut_short(tmp_path, cut):
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "sent").write_bytes(zstandard.ZstdCompressor().compress(FILES[MODEL])[:cut])
    with pytest.raises(CatalogueError, match=f"{MODEL}: is damaged or cut short"):
        unpack(tmp_path / "sent", tmp_path / "out", RemoteFile(MODEL, (), "zstd"))


def test_records_that_are_not_whole_or_of_no_version_are_refused(server, tmp_path):
    server.put("records.json", {"data": records(server, FILES)[:2]})
    refused(server, tmp_path, "not complete", from_source="firefox-records")
    server.put("records.json", {"data": records(server, FILES, "new")})
    refused(server, tmp_path, "version is 'new'", from_source="firefox-records")


def package(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in members.items():
            file.writestr(f"translate-en_pt-1_0/{name.replace('__', '/')}", content)
    return packed.getvalue()


def argos(server, content: bytes, *links: str, **changed: object) -> None:
    server.put("translate-en_pt-1_0.argosmodel", content)
    link = f"{server.url}/translate-en_pt-1_0.argosmodel"
    entry = {"from_code": "en", "to_code": "pt", "package_version": "1.0", "links": [*links, link]} | changed
    server.put("index.json", [entry])


def test_argos_packages_are_installed_as_they_are_and_their_sums_checked(server, tmp_path):
    names = {"metadata.json": b"{}", "model__model.bin": b"weights" * 99, "sentencepiece.model": b"pieces"}
    good = package(**names)
    argos(server, good, "ipfs://QmX")
    options = {"mirror": server.url, "from_source": "argos", "limits": LIMITS}
    place = catalogue.download("en-pt", **options, environment={"UWAGA_HOME": str(tmp_path)})
    assert place.name == "translate-en_pt-1_0.argosmodel" and place.read_bytes() == good
    by_name = {"mirror": server.url, "limits": LIMITS, "environment": {"UWAGA_HOME": str(tmp_path / "g")}}
    assert catalogue.download("argos-en-pt", **by_name).name == place.name  # the name says which source
    assert place.parent.name == "argos-en-pt" and (place.parent / "card.md").is_file()
    argos(server, good.replace(b"weightsweights", b"weightsWeights", 1))
    refused(server, tmp_path / "a", "argosmodel.*(CRC|sum|damaged)", from_source="argos")
    argos(server, good[:-30])
    refused(server, tmp_path / "b", "argosmodel", from_source="argos")
    argos(server, package(**{"../../evil": b"x"} | names))
    refused(server, tmp_path / "c", "outside", from_source="argos")
    argos(server, b"<html>Not here</html>")
    refused(server, tmp_path / "d", "argosmodel", from_source="argos")
    argos(server, good, links=["ipfs://QmX"])
    refused(server, tmp_path / "e", "no HTTP link", from_source="argos")
    argos(server, good, links=["https://x.example/../../.bashrc"])
    refused(server, tmp_path / "f", "refused", from_source="argos")


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(ODD[5:11])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_change_of_a_catalogue_is_a_listing_or_an_error_of_ours(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("mirror")
    files = {
        "model": {"path": "a/model.enpt.bin.gz", "uncompressedSize": 5, "uncompressedHash": "0" * 64},
        "vocab": {"path": "a/vocab.enpt.spm.gz"},
    }
    model = {
        "architecture": "tiny",
        "releaseStatus": "Release",
        "files": files,
        "metrics": {"x": {"bleu": 1}},
    }
    root: dict[str, object] = {"baseUrl": "https://x", "models": {"en-pt": [model]}}
    at: object = root
    while isinstance(at, dict | list) and at:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(at[key], dict | list) or not at[key]:
            at[key] = data.draw(VALUES)
            break
        at = at[key]
    (place / "models.json").write_text(json.dumps(root))
    found, error = attempted(str(place))
    assert error.isprintable()
    for entry in found.entries:
        assert all(Path(one.locations[0]).resolve().is_relative_to(place.resolve()) for one in entry.files)

"""Tokenisers of the pretrained families: the ids and texts that transformers gives, in peers built beside."""

import dataclasses
import json
import shutil

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

transformers = pytest.importorskip("transformers")

from pretrained_texts import LINES, ODD, PLAIN, write_json
from pretrained_tokenisers import FAMILIES, PIECES, READERS, SPEAKS, SPECIAL, newer, older
from sentencepiece import SentencePieceProcessor

from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.languages.codes import M2M100, MBART50, NLLB200, WMT21
from uwaga.tokenizers.framed import clean_up
from uwaga.tokenizers.pretrained import TokenIds

NO_JSON = ("m2m100",)
JSON = [name for name in FAMILIES if name not in NO_JSON]
FAMILY = pytest.mark.parametrize("name", FAMILIES)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def ids(case, text):
    return case.ours.add_special_tokens(case.ours.encode(text))


def spelt(name, space):
    """Texts that spell special tokens."""
    tokens = SPECIAL[name]
    return [
        f"the{space}{one} dog{other}{space}and{space}{other}{one}" for one in tokens for other in tokens
    ] + [
        "".join(tokens),
        f"{tokens[0]} ",
        f"a {tokens[-1]}",
    ][: 1 if space == "" else 3]


@pytest.mark.parametrize("name", JSON)
def test_ids_of_tokenizer_json_equal_transformers(name):
    case = newer(name)
    assert (case.folder / "tokenizer.json").exists()
    for text in [*PLAIN, *ODD, *LINES[::7], *spelt(name, " "), *spelt(name, "")]:
        assert ids(case, text) == case.peer(text).input_ids, text


@FAMILY
def test_ids_of_older_files_equal_transformers(name):
    """Where transformers 5 departs from SentencePiece itself, the next test says what holds."""
    case = older(name)
    assert not (case.folder / "tokenizer.json").exists()
    own = name in ("bart", "gpt2", "bert", "bert-cased", "t5", "m2m100")
    more = [*ODD, *spelt(name, " ")] if own else [text for text in ODD[:-2] if text.strip()]
    plain = [text for text in PLAIN if name != "mbart" or "\u0301" not in text]
    for text in [*plain, *LINES[::7], *more, *spelt(name, "")]:
        if own or "\u3000" not in text or name != "mbart":
            assert ids(case, text) == case.peer(text).input_ids, text


@pytest.mark.parametrize("name", PIECES)
@settings(max_examples=30, deadline=None)
@given(ANY)
def test_pieces_of_older_files_are_sentencepieces_own(name, text):
    """Also where transformers 5 keeps a space at the end or, in mBART, leaves the normalisation out."""
    case = older(name)
    assume(not any(token in text for token in case.ours.codec.added))
    [file] = case.folder.glob("*.model")
    pieces = SentencePieceProcessor(model_file=str(file)).encode(text, out_type=str)
    unknown = case.ours.symbols.unknown
    known = [case.ours.number(piece) for piece in pieces]
    assert case.ours.encode(text) == [unknown if number is None else number for number in known]
    assert case.ours.encode(text) == case.peer.convert_tokens_to_ids(pieces)


@pytest.mark.parametrize("name", JSON)
@settings(max_examples=30, deadline=None)
@given(ANY)
def test_any_text_has_transformers_ids(name, text):
    case = newer(name)
    assert ids(case, text) == case.peer(text).input_ids


@pytest.mark.parametrize("name", ["bart", "gpt2", "bert", "bert-cased", "t5", "m2m100"])
@settings(max_examples=40, deadline=None)
@given(ANY)
def test_any_text_has_transformers_ids_from_older_files(name, text):
    case = older(name)
    text = text.replace("\x85", "")  # white space to transformers' T5, a character to SentencePiece
    assert ids(case, text) == case.peer(text).input_ids


@FAMILY
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_ids_have_transformers_text(name, data):
    for case in (older(name), *([newer(name)] if name in JSON else [])):
        most = len(case.peer) if name != "m2m100" else len(case.peer) - 108
        row = data.draw(st.lists(st.integers(0, most - 1), max_size=12))
        assert case.ours.decode(row) == case.peer.decode(row, skip_special_tokens=True)


@FAMILY
def test_texts_come_back(name):
    case = older(name)
    for text in [line for line in LINES if line.isascii()][:30:7]:
        found = case.ours.decode(ids(case, text))
        if name in ("bart", "gpt2"):
            assert found == text
        else:
            assert found.lower().replace(" ", "") == text.lower().replace(" ", "")
    pieces = case.ours.pieces(ids(case, "the dog"))
    assert len(pieces) >= 2
    assert pieces == case.peer.convert_ids_to_tokens(ids(case, "the dog"))


@FAMILY
def test_symbols_are_those_of_the_folder(name):
    case = older(name)
    symbols = case.ours.symbols
    assert symbols.pad == (case.peer.pad_token_id if name != "gpt2" else symbols.end)
    end = case.peer.sep_token_id if name.startswith("bert") else case.peer.eos_token_id
    assert symbols.end == end
    assert symbols.unknown == case.peer.unk_token_id
    assert case.ours.name == str(case.folder)


def test_ids_of_the_published_models():
    """By hand: what the vocabularies of the published checkpoints make of the order of the languages."""
    assert 250_001 + MBART50.index("en_XX") == 250_004
    assert 250_001 + MBART50.index("ro_RO") == 250_020
    assert 128_004 + M2M100.index("en") == 128_022
    assert 256_001 + NLLB200.index("eng_Latn") == 256_047
    assert 256_001 + len(NLLB200) == 256_203  # <mask>
    assert (len(MBART50), len(M2M100), len(NLLB200), len(WMT21)) == (52, 100, 202, 8)
    case = older("nllb")
    size = SentencePieceProcessor(model_file=str(case.folder / "sentencepiece.bpe.model")).get_piece_size()
    assert case.ours.languages["eng_Latn"] == size + 1 + NLLB200.index("eng_Latn")
    assert case.ours.number("<mask>") == size + 1 + len(NLLB200)


def test_frames_of_languages():
    """Source and target of each multilingual family, and where the target's language goes."""
    for name in ("mbart50", "m2m100", "nllb"):
        case = older(name)
        peer, target = case.peer, case.sides.target
        source = case.ours.encode("the dog")
        language = case.ours.languages[SPEAKS[name]]
        assert case.ours.add_special_tokens(source) == [language, *source, peer.eos_token_id]
        assert target.add_special_tokens(source) == [language, *source, peer.eos_token_id]
        assert target.first == language
        peer.tgt_lang = SPEAKS[name]
        assert target.add_special_tokens(target.encode("the dog")) == peer(text_target="the dog").input_ids
    case = older("mbart")
    source = case.ours.encode("the dog")
    assert case.ours.add_special_tokens(source) == [*source, 2, case.ours.languages["de_DE"]]
    assert case.sides.target.add_special_tokens(source) == [*source, 2]
    assert case.sides.target.symbols.start == case.ours.languages["de_DE"]
    assert case.sides.target.first is None


def copy(case, tmp_path, **changes):
    """The folder again, with other settings in ``tokenizer_config.json``."""
    folder = tmp_path / "copy"
    shutil.copytree(case.folder, folder)
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text()) if path.exists() else {}
    write_json(path, values | changes)
    return folder


def test_nllb_as_first_released(tmp_path):
    case = older("nllb")
    folder = copy(case, tmp_path, legacy_behaviour=True, src_lang="fra_Latn", tgt_lang="deu_Latn")
    sides = READERS["nllb"](folder, case.ids)
    source = sides.source.encode("the dog")
    assert sides.source.add_special_tokens(source) == [*source, 2, case.ours.languages["fra_Latn"]]
    assert sides.target.first == case.ours.languages["deu_Latn"]


def test_stated_languages_and_starts(tmp_path):
    case = older("mbart50")
    folder = copy(case, tmp_path, src_lang="en_XX", tokenizer_class="MBartTokenizer")
    sides = READERS["mbart"](folder, dataclasses.replace(case.ids, start=case.ours.languages["ro_RO"]))
    assert (sides.source.language, sides.target.language) == ("en_XX", "ro_RO")
    assert sides.source.place == "behind"
    assert "sl_SI" not in sides.source.languages


def test_languages_that_are_lacking_or_unclear():
    mbart, nllb = older("mbart50").ours, older("nllb").ours
    assert mbart.with_language("fr").language == "fr_XX"
    assert nllb.with_language("fra").language == "fra_Latn"
    with pytest.raises(SettingsError, match=r"'zho' is ambiguous: choose one of zho_Hans, zho_Hant"):
        nllb.with_language("zho")
    with pytest.raises(SettingsError, match=r"no language 'xx_XX'; did you mean .*_XX.* from af_ZA ar_AR"):
        mbart.with_language("xx_XX")
    with pytest.raises(SettingsError, match=r"142 more \(`uwaga info` lists them\)"):
        nllb.with_language("klingon")
    with pytest.raises(SettingsError, match=r"multilingual: choose with source .*--from"):
        READERS["nllb"](older("nllb").folder, older("nllb").ids).source.add_special_tokens([5])


def test_clean_up_is_transformers(tmp_path):
    text = "it is n't . Are you , he 's 've ' ok ' ? I 'm we 're !"
    assert clean_up(text) == older("t5").peer.clean_up_tokenization(text)
    case = older("t5")
    folder = copy(case, tmp_path, clean_up_tokenization_spaces=True)
    ours = READERS["t5"](folder, case.ids).source
    peer = transformers.T5Tokenizer.from_pretrained(folder)
    row = peer("the dog . a cat ?").input_ids
    assert ours.decode(row) == peer.decode(row, skip_special_tokens=True) == "the dog. a cat?"
    folder = copy(older("bart"), tmp_path / "bart", clean_up_tokenization_spaces=True)
    assert not READERS["bart"](folder, older("bart").ids).source.clean  # bytes spell their spaces


def test_settings_beside_tokenizer_json(tmp_path):
    """The small file wins, as in transformers."""
    case = newer("bert")
    folder = copy(case, tmp_path, do_lower_case=False, strip_accents=True)
    peer = transformers.BertTokenizer.from_pretrained(folder)
    ours = READERS["bert"](folder, case.ids).source
    for text in PLAIN:
        assert ours.add_special_tokens(ours.encode(text)) == peer(text).input_ids
    case = newer("gpt2")
    folder = copy(case, tmp_path / "gpt2", add_prefix_space=True, add_bos_token=True)
    ours = READERS["gpt2"](folder, case.ids).source
    assert ours.encode("the dog") == case.ours.encode(" the dog")
    assert ours.add_special_tokens([5]) == [case.ours.symbols.end, 5]


def test_added_tokens(tmp_path):
    """Tokens that somebody added to the vocabulary later."""
    for name in ("bart", "t5"):
        case = older(name)
        folder = tmp_path / name
        shutil.copytree(case.folder, folder)
        size = case.ids.vocabulary
        write_json(folder / "added_tokens.json", {"<place>": size, "<person>": size + 1})
        ours = READERS[name](folder, TokenIds(size + 2)).source
        assert size + 1 in ours.encode("a <person> here")
        assert ours.decode([size + 1]) == ""
        write_json(folder / "added_tokens.json", {"<place>": size + 1})
        if name == "bart":
            with pytest.raises(ModelError, match=f"'<place>' should have id {size + 1}"):
                READERS[name](folder, TokenIds(size + 2))


@FAMILY
def test_vocabulary_that_disagrees_with_the_weights(name):
    case = older(name)
    for size in (case.ids.vocabulary - 60, case.ids.vocabulary + 5_000):
        with pytest.raises(
            ModelError, match=f"pieces, but the weights are for {size}; the files belong to diff"
        ):
            READERS[name](case.folder, dataclasses.replace(case.ids, vocabulary=size))
    with pytest.raises(ModelError, match=r"</?s>|endoftext|\[SEP\]"):
        READERS[name](case.folder, dataclasses.replace(case.ids, end=7))
    with pytest.raises(DataError, match="outside the vocabulary"):
        case.ours.decode([case.ids.vocabulary])
    with pytest.raises(DataError, match="outside the vocabulary"):
        case.ours.pieces([-1])


def test_rows_without_a_piece():
    """Embeddings are rounded up; a model may make such a token, and it is no text."""
    case = older("t5")
    ours = READERS["t5"](
        case.folder, dataclasses.replace(case.ids, vocabulary=case.ids.vocabulary + 28)
    ).source
    extra = case.ids.vocabulary + 27
    assert ours.decode([*case.ours.encode("the dog"), extra]) == "the dog"
    assert ours.pieces([extra]) == [f"<unused {extra}>"]


@FAMILY
def test_missing_files_are_named(name, tmp_path):
    case = older(name)
    with pytest.raises(
        ModelError, match=r"expected .*(tokenizer\.json|vocab\.json).*fetch the whole repository"
    ):
        READERS[name](tmp_path, case.ids)


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("bart", "vocab.json", b"{", "vocab.json: not valid JSON"),
        ("bart", "vocab.json", b'{"a": 0, "b": 2}', "not numbered from 0"),
        ("bart", "merges.txt", b"a b c\n", "merges.txt: 'a b c' is not a pair"),
        ("bart", "merges.txt", "日 本\n".encode(), "merges.txt: disagrees with vocab.json"),
        ("bart", "merges.txt", b"\xff", "merges.txt: not UTF-8"),
        ("bart", "tokenizer.json", b"{}", "tokenizer.json: damaged"),
        ("bart", "tokenizer_config.json", b"[1]", "tokenizer_config.json: not a mapping"),
        ("bert", "vocab.txt", b"a\nb\n", r"lacks \[UNK\]"),
        ("bert", "vocab.txt", b"\xff\n", "vocab.txt: not UTF-8"),
        ("t5", "spiece.model", b"junk", "spiece.model: damaged"),
        ("t5", "tokenizer_config.json", b'{"extra_ids": "x"}', "'extra_ids' must be"),
        ("pegasus", "tokenizer_config.json", b'{"offset": -1}', "'offset' must be"),
        ("m2m100", "vocab.json", b'{"a": 0}', "vocab.json: the vocabulary lacks <s>"),
        ("nllb", "sentencepiece.bpe.model", b"", "damaged or not a SentencePiece model"),
    ],
)
def test_damaged_files_are_named(name, file, content, message, tmp_path):
    case = older(name)
    folder = tmp_path / "copy"
    shutil.copytree(case.folder, folder)
    (folder / file).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        READERS[name](folder, case.ids)


@FAMILY
def test_half_a_surrogate_pair(name):
    with pytest.raises(DataError, match="not valid Unicode"):
        older(name).ours.encode("a \ud83d b")


def test_models_of_an_ensemble_are_told_apart():
    first = older("t5").ours
    assert first.model_bytes == READERS["t5"](older("t5").folder, older("t5").ids).source.model_bytes
    assert first.model_bytes != first.with_prompt_prefix("translate: ").model_bytes
    assert first.model_bytes != older("pegasus").ours.model_bytes
    assert first.with_prompt_prefix("a ").encode("cat") == first.encode("a cat")
    assert older("m2m100").ours.with_language("fr").model_bytes != older("m2m100").ours.model_bytes

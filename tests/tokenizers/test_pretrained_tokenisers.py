"""Tokenisers of pretrained families: ids and texts equal those of transformers."""

import dataclasses
import json
import shutil

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

transformers = pytest.importorskip("transformers")

from pretrained_texts import LINES, ODD_TEXTS, PLAIN_TEXTS, write_json
from pretrained_tokenisers import (
    FAMILIES,
    LANGUAGE_CODES,
    READERS,
    SENTENCEPIECE_FAMILIES,
    SPECIAL_TOKENS,
    newer_format,
    older_format,
)
from sentencepiece import SentencePieceProcessor

from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.languages.codes import M2M100, MBART50, NLLB200, WMT21
from uwaga.tokenizers.framed import clean_up
from uwaga.tokenizers.pretrained import TokenIds

NO_JSON = ("m2m100",)
JSON_FAMILIES = [name for name in FAMILIES if name not in NO_JSON]
FAMILY = pytest.mark.parametrize("name", FAMILIES)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def ids(case, text):
    return case.uwaga.add_special_tokens(case.uwaga.encode(text))


def special_texts(name, space):
    """Return texts that contain the spelling of special tokens."""
    tokens = SPECIAL_TOKENS[name]
    return [
        f"the{space}{first} dog{second}{space}and{space}{second}{first}"
        for first in tokens
        for second in tokens
    ] + ["".join(tokens), f"{tokens[0]} ", f"a {tokens[-1]}"][: 1 if space == "" else 3]


@pytest.mark.parametrize("name", JSON_FAMILIES)
def test_ids_from_tokenizer_json_match_transformers(name):
    case = newer_format(name)
    assert (case.folder / "tokenizer.json").exists()
    for text in [*PLAIN_TEXTS, *ODD_TEXTS, *LINES[::7], *special_texts(name, " "), *special_texts(name, "")]:
        assert ids(case, text) == case.peer(text).input_ids, text


@FAMILY
def test_ids_from_older_tokeniser_files_match_transformers(name):
    """Texts for which transformers 5 differs from SentencePiece are in the next test."""
    case = older_format(name)
    assert not (case.folder / "tokenizer.json").exists()
    is_exact = name in ("bart", "gpt2", "bert", "bert-cased", "t5", "m2m100")
    odd_texts = (
        [*ODD_TEXTS, *special_texts(name, " ")]
        if is_exact
        else [text for text in ODD_TEXTS[:-2] if text.strip()]
    )
    plain = [text for text in PLAIN_TEXTS if name != "mbart" or "\u0301" not in text]
    for text in [*plain, *LINES[::7], *odd_texts, *special_texts(name, "")]:
        if is_exact or "\u3000" not in text or name != "mbart":
            assert ids(case, text) == case.peer(text).input_ids, text


@pytest.mark.parametrize("name", SENTENCEPIECE_FAMILIES)
@given(ANY_TEXT)
def test_pieces_from_older_tokeniser_files_match_sentencepiece(name, text):
    """Includes texts for which transformers 5 keeps a final space or, in mBART, omits the normalisation."""
    case = older_format(name)
    assume(not any(token in text for token in case.uwaga.codec.added_tokens))
    [file] = case.folder.glob("*.model")
    pieces = SentencePieceProcessor(model_file=str(file)).encode(text, out_type=str)
    unknown = case.uwaga.symbols.unknown
    numbers = [case.uwaga.token_id(piece) for piece in pieces]
    assert case.uwaga.encode(text) == [unknown if number is None else number for number in numbers]
    assert case.uwaga.encode(text) == case.peer.convert_tokens_to_ids(pieces)


@pytest.mark.parametrize("name", JSON_FAMILIES)
@given(ANY_TEXT)
def test_encoding_any_text_matches_transformers(name, text):
    case = newer_format(name)
    assert ids(case, text) == case.peer(text).input_ids


@pytest.mark.parametrize("name", ["bart", "gpt2", "bert", "bert-cased", "t5", "m2m100"])
@given(ANY_TEXT)
def test_encoding_any_text_with_older_tokeniser_files_matches_transformers(name, text):
    case = older_format(name)
    text = text.replace("\x85", "")  # white space to transformers' T5, a character to SentencePiece
    assert ids(case, text) == case.peer(text).input_ids


@FAMILY
@given(data=st.data())
def test_decoding_any_ids_matches_transformers(name, data):
    for case in (older_format(name), *([newer_format(name)] if name in JSON_FAMILIES else [])):
        limit = len(case.peer) if name != "m2m100" else len(case.peer) - 108
        row = data.draw(st.lists(st.integers(0, limit - 1), max_size=12))
        assert case.uwaga.decode(row) == case.peer.decode(row, skip_special_tokens=True)


@FAMILY
def test_texts_survive_a_round_trip(name):
    case = older_format(name)
    for text in [line for line in LINES if line.isascii()][:30:7]:
        decoded = case.uwaga.decode(ids(case, text))
        if name in ("bart", "gpt2"):
            assert decoded == text
        else:
            assert decoded.lower().replace(" ", "") == text.lower().replace(" ", "")
    pieces = case.uwaga.pieces(ids(case, "the dog"))
    assert len(pieces) >= 2
    assert pieces == case.peer.convert_ids_to_tokens(ids(case, "the dog"))


@FAMILY
def test_special_symbol_ids_match_transformers(name):
    case = older_format(name)
    symbols = case.uwaga.symbols
    assert symbols.pad == (case.peer.pad_token_id if name != "gpt2" else symbols.end)
    end = case.peer.sep_token_id if name.startswith("bert") else case.peer.eos_token_id
    assert symbols.end == end
    assert symbols.unknown == case.peer.unk_token_id
    assert case.uwaga.name == str(case.folder)


def test_language_ids_match_published_models():
    """The ids of languages in the vocabularies of published checkpoints, computed by hand."""
    assert 250_001 + MBART50.index("en_XX") == 250_004
    assert 250_001 + MBART50.index("ro_RO") == 250_020
    assert 128_004 + M2M100.index("en") == 128_022
    assert 256_001 + NLLB200.index("eng_Latn") == 256_047
    assert 256_001 + len(NLLB200) == 256_203  # <mask>
    assert (len(MBART50), len(M2M100), len(NLLB200), len(WMT21)) == (52, 100, 202, 8)
    case = older_format("nllb")
    size = SentencePieceProcessor(model_file=str(case.folder / "sentencepiece.bpe.model")).get_piece_size()
    assert case.uwaga.languages["eng_Latn"] == size + 1 + NLLB200.index("eng_Latn")
    assert case.uwaga.token_id("<mask>") == size + 1 + len(NLLB200)


def test_language_tokens_are_added_where_each_family_expects_them():
    """Language tokens of source and target in each multilingual family."""
    for name in ("mbart50", "m2m100", "nllb"):
        case = older_format(name)
        peer, target = case.peer, case.sides.target
        source = case.uwaga.encode("the dog")
        language = case.uwaga.languages[LANGUAGE_CODES[name]]
        assert case.uwaga.add_special_tokens(source) == [language, *source, peer.eos_token_id]
        assert target.add_special_tokens(source) == [language, *source, peer.eos_token_id]
        assert target.first == language
        peer.tgt_lang = LANGUAGE_CODES[name]
        assert target.add_special_tokens(target.encode("the dog")) == peer(text_target="the dog").input_ids
    case = older_format("mbart")
    source = case.uwaga.encode("the dog")
    assert case.uwaga.add_special_tokens(source) == [*source, 2, case.uwaga.languages["de_DE"]]
    assert case.sides.target.add_special_tokens(source) == [*source, 2]
    assert case.sides.target.symbols.start == case.uwaga.languages["de_DE"]
    assert case.sides.target.first is None


def copy_folder(case, tmp_path, **changes):
    """Copy a folder, and change settings in its ``tokenizer_config.json``."""
    folder = tmp_path / "copy"
    shutil.copytree(case.folder, folder)
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text()) if path.exists() else {}
    write_json(path, values | changes)
    return folder


def test_nllb_legacy_behaviour_puts_the_language_token_last(tmp_path):
    case = older_format("nllb")
    folder = copy_folder(case, tmp_path, legacy_behaviour=True, src_lang="fra_Latn", tgt_lang="deu_Latn")
    sides = READERS["nllb"](folder, case.ids)
    source = sides.source.encode("the dog")
    assert sides.source.add_special_tokens(source) == [*source, 2, case.uwaga.languages["fra_Latn"]]
    assert sides.target.first == case.uwaga.languages["deu_Latn"]


def test_declared_languages_and_start_symbol_are_read(tmp_path):
    case = older_format("mbart50")
    folder = copy_folder(case, tmp_path, src_lang="en_XX", tokenizer_class="MBartTokenizer")
    sides = READERS["mbart"](folder, dataclasses.replace(case.ids, start=case.uwaga.languages["ro_RO"]))
    assert (sides.source.language, sides.target.language) == ("en_XX", "ro_RO")
    assert sides.source.language_position == "behind"
    assert "sl_SI" not in sides.source.languages


def test_missing_or_ambiguous_languages_are_rejected():
    mbart, nllb = older_format("mbart50").uwaga, older_format("nllb").uwaga
    assert mbart.with_language("fr").language == "fr_XX"
    assert nllb.with_language("fra").language == "fra_Latn"
    with pytest.raises(SettingsError, match=r"'zho' is ambiguous: choose one of zho_Hans, zho_Hant"):
        nllb.with_language("zho")
    with pytest.raises(SettingsError, match=r"no language 'xx_XX'; did you mean .*_XX.* from af_ZA ar_AR"):
        mbart.with_language("xx_XX")
    with pytest.raises(SettingsError, match=r"142 more \(`uwaga info` lists them\)"):
        nllb.with_language("klingon")
    with pytest.raises(SettingsError, match=r"multilingual: choose with source .*--from"):
        READERS["nllb"](older_format("nllb").folder, older_format("nllb").ids).source.add_special_tokens([5])


def test_cleaned_up_decoded_text_matches_transformers(tmp_path):
    text = "it is n't . Are you , he 's 've ' ok ' ? I 'm we 're !"
    assert clean_up(text) == older_format("t5").peer.clean_up_tokenization(text)
    case = older_format("t5")
    folder = copy_folder(case, tmp_path, clean_up_tokenization_spaces=True)
    tokeniser = READERS["t5"](folder, case.ids).source
    peer = transformers.T5Tokenizer.from_pretrained(folder)
    row = peer("the dog . a cat ?").input_ids
    assert tokeniser.decode(row) == peer.decode(row, skip_special_tokens=True) == "the dog. a cat?"
    folder = copy_folder(older_format("bart"), tmp_path / "bart", clean_up_tokenization_spaces=True)
    assert not READERS["bart"](folder, older_format("bart").ids).source.clean  # bytes spell their spaces


def test_tokenizer_config_overrides_tokenizer_json(tmp_path):
    """``tokenizer_config.json`` takes precedence, as in transformers."""
    case = newer_format("bert")
    folder = copy_folder(case, tmp_path, do_lower_case=False, strip_accents=True)
    peer = transformers.BertTokenizer.from_pretrained(folder)
    tokeniser = READERS["bert"](folder, case.ids).source
    for text in PLAIN_TEXTS:
        assert tokeniser.add_special_tokens(tokeniser.encode(text)) == peer(text).input_ids
    case = newer_format("gpt2")
    folder = copy_folder(case, tmp_path / "gpt2", add_prefix_space=True, add_bos_token=True)
    tokeniser = READERS["gpt2"](folder, case.ids).source
    assert tokeniser.encode("the dog") == case.uwaga.encode(" the dog")
    assert tokeniser.add_special_tokens([5]) == [case.uwaga.symbols.end, 5]


def test_added_tokens_are_read_or_rejected_if_inconsistent(tmp_path):
    """The tokens were added to the vocabulary after training."""
    for name in ("bart", "t5"):
        case = older_format(name)
        folder = tmp_path / name
        shutil.copytree(case.folder, folder)
        size = case.ids.vocabulary
        write_json(folder / "added_tokens.json", {"<place>": size, "<person>": size + 1})
        tokeniser = READERS[name](folder, TokenIds(size + 2)).source
        assert size + 1 in tokeniser.encode("a <person> here")
        assert tokeniser.decode([size + 1]) == ""
        write_json(folder / "added_tokens.json", {"<place>": size + 1})
        if name == "bart":
            with pytest.raises(ModelError, match=f"'<place>' should have id {size + 1}"):
                READERS[name](folder, TokenIds(size + 2))


@FAMILY
def test_vocabulary_size_mismatch_is_rejected(name):
    case = older_format(name)
    for size in (case.ids.vocabulary - 60, case.ids.vocabulary + 5_000):
        with pytest.raises(
            ModelError, match=f"pieces, but the weights are for {size} tokens; the files belong to diff"
        ):
            READERS[name](case.folder, dataclasses.replace(case.ids, vocabulary=size))
    with pytest.raises(ModelError, match=r"</?s>|endoftext|\[SEP\]"):
        READERS[name](case.folder, dataclasses.replace(case.ids, end=7))
    with pytest.raises(DataError, match="outside the vocabulary"):
        case.uwaga.decode([case.ids.vocabulary])
    with pytest.raises(DataError, match="outside the vocabulary"):
        case.uwaga.pieces([-1])


def test_ids_beyond_the_vocabulary_have_no_text():
    """The number of embeddings is rounded up; a model may generate such a token, which has no text."""
    case = older_format("t5")
    tokeniser = READERS["t5"](
        case.folder, dataclasses.replace(case.ids, vocabulary=case.ids.vocabulary + 28)
    ).source
    extra = case.ids.vocabulary + 27
    assert tokeniser.decode([*case.uwaga.encode("the dog"), extra]) == "the dog"
    assert tokeniser.pieces([extra]) == [f"<unused {extra}>"]


@FAMILY
def test_missing_files_are_reported(name, tmp_path):
    case = older_format(name)
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
        ("bart", "tokenizer_config.json", b"[1]", "tokenizer_config.json: not a JSON object"),
        ("bert", "vocab.txt", b"a\nb\n", r"lacks \[UNK\]"),
        ("bert", "vocab.txt", b"\xff\n", "vocab.txt: not UTF-8"),
        ("t5", "spiece.model", b"junk", "spiece.model: damaged"),
        ("t5", "tokenizer_config.json", b'{"extra_ids": "x"}', "'extra_ids' must be"),
        ("pegasus", "tokenizer_config.json", b'{"offset": -1}', "'offset' must be"),
        ("m2m100", "vocab.json", b'{"a": 0}', "vocab.json: the vocabulary lacks <s>"),
        ("nllb", "sentencepiece.bpe.model", b"", "damaged or not a SentencePiece model"),
    ],
)
def test_damaged_files_are_reported(name, file, content, message, tmp_path):
    case = older_format(name)
    folder = tmp_path / "copy"
    shutil.copytree(case.folder, folder)
    (folder / file).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        READERS[name](folder, case.ids)


@FAMILY
def test_lone_surrogate_is_rejected(name):
    with pytest.raises(DataError, match="not valid Unicode"):
        older_format(name).uwaga.encode("a \ud83d b")


def test_model_bytes_are_equal_only_for_equal_tokenisers():
    first = older_format("t5").uwaga
    assert (
        first.model_bytes
        == READERS["t5"](older_format("t5").folder, older_format("t5").ids).source.model_bytes
    )
    assert first.model_bytes != first.with_prompt_prefix("translate: ").model_bytes
    assert first.model_bytes != older_format("pegasus").uwaga.model_bytes
    assert first.with_prompt_prefix("a ").encode("cat") == first.encode("a cat")
    assert (
        older_format("m2m100").uwaga.with_language("fr").model_bytes
        != older_format("m2m100").uwaga.model_bytes
    )

"""Glossaries: reading of files and mappings, and matching of terms in texts."""

import contextlib
import gzip
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import DataError, SettingsError, UwagaError
from uwaga.terms import Glossary, Term
from uwaga.terms.files import read_terms

TERMS = {
    "house": "Haus|Hauses|Häuser", "front door": ["Haustür"], "New York": None, "door": "Tür", "Acme": "",
}  # fmt: skip


def find_terms(glossary, text):
    return [(text[match.start : match.end], match.term.targets[0]) for match in glossary.find(text)]


def test_longest_terms_match_first_at_word_boundaries():
    glossary = Glossary.from_argument(TERMS)
    text = "The house's front  door, a doorway; House of Acme in New York. A front of the door."
    assert find_terms(glossary, text) == [
        ("house", "Haus"), ("front  door", "Haustür"), ("Acme", "Acme"), ("New York", "New York"),
        ("door", "Tür"),
    ]  # fmt: skip
    assert find_terms(glossary, "housed warehouse") == []
    overlapping = Glossary.from_argument({"a b": "1", "b c d": "2", "d e": "3"})
    assert find_terms(overlapping, "a b c d e") == [("b c d", "2")]


@pytest.mark.parametrize("before", ["", "So. ", "So! ", "(", "So: '", "“"])
def test_capital_at_the_start_of_a_sentence_matches_a_lower_case_term(before):
    [match] = Glossary.from_argument({"house": "Haus"}).find(f"{before}House for sale")
    assert match.capitalised
    assert Glossary.from_argument({"house": "Haus"}).find(f"{before}a House for sale") == []
    [match] = Glossary.from_argument({"House": "Haus"}).find(f"{before}House for sale")
    assert not match.capitalised


def test_ignore_case_option_matches_any_capitalisation():
    glossary = Glossary((Term("iPhone case", ("Hülle",), "here"),), ignore_case=True)
    assert len(glossary.find("IPHONE CASE and iphone case")) == 2


def test_terms_in_unspaced_scripts_match_without_word_boundaries():
    assert find_terms(Glossary.from_argument({"東京": "Tokio", "駅": "Bahnhof"}), "東京駅へ行く") == [
        ("東京", "Tokio"),
        ("駅", "Bahnhof"),
    ]


@given(
    st.dictionaries(st.text("ab ", min_size=1, max_size=6), st.just("x"), max_size=6),
    st.text("ab .", max_size=30),
)
def test_term_matches_are_ordered_and_disjoint(terms, text):
    terms = {source: target for source, target in terms.items() if source.strip()}
    normalised, end = {" ".join(source.split()): source for source in terms}, 0
    if len(normalised) < len(terms):
        return
    for match in Glossary.from_argument(terms).find(text):
        assert match.start >= end
        end = match.end
        assert " ".join(text[match.start : match.end].split()) == match.term.source
        assert not text[match.start - 1 : match.start].isalnum() or match.start == 0
        assert not text[end : end + 1].isalnum()


@given(st.sets(st.text("abc", min_size=1, max_size=4)), st.text("abc.", max_size=30))
def test_longer_and_then_earlier_terms_take_precedence(terms, text):
    glossary = Glossary(Term(" ".join(term), ("x",), "here") for term in terms)
    starts = range(len(text))
    candidates = [(-len(term), start) for term in terms for start in starts if text.startswith(term, start)]
    occupied, expected = set(), []
    for negated_size, start in sorted(candidates):
        words = range(start, start - negated_size)
        if occupied.isdisjoint(words):
            occupied.update(words)
            expected.append((2 * start, 2 * words.stop - 1))
    assert glossary.spans(" ".join(text)) == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize("words", [1, 4, 400])
def test_memory_use_is_proportional_to_the_number_of_terms(words):
    rng = random.Random(words)
    terms = [Term(" ".join(rng.choices("abcdef", k=words)), ("x",), "here") for _ in range(200_000 // words)]
    terms = list({term.source: term for term in terms}.values())
    tracemalloc.start()
    try:
        glossary = Glossary(terms)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(glossary) == len(terms)
    assert used < 2 * sum(len(term.source) for term in terms) + 200 * len(terms) + 10_000


def test_glossary_file_formats_are_read(tmp_path):
    tsv, semicolons = tmp_path / "a.tsv", tmp_path / "b.csv"
    tsv.write_text(
        "source\ttarget\tnote\n# a note\n\nhouse\tHaus | Hauses\tbuilding\nNew  York\nAcme\tAcme\n"
    )
    semicolons.write_text('house;"Haus|Hauses"\r\nNew York;\r\n"Acme"\r\n')
    compressed = tmp_path / "c.csv.gz"
    compressed.write_bytes(gzip.compress(b"source,target\nhouse,Haus|Hauses\nNew York,New York\nAcme,Acme\n"))
    tbx = tmp_path / "d.tbx"
    tbx.write_text(
        '<?xml version="1.0"?><!DOCTYPE martif SYSTEM "TBXcore.dtd"><martif><text><body>'
        '<termEntry><langSet xml:lang="en-US"><tig><term>house</term></tig></langSet>'
        '<langSet xml:lang="de"><tig><term>Haus</term></tig><ntig><termGrp><term>Hauses</term></termGrp>'
        '</ntig></langSet><langSet xml:lang="fr"><tig><term>maison</term></tig></langSet></termEntry>'
        + "".join(
            f'<termEntry><langSet xml:lang="en"><tig><term>{term}</term></tig></langSet>'
            f'<langSet xml:lang="de"><tig><term>{term}</term></tig></langSet></termEntry>'
            for term in ("New York", "Acme")
        )
        + '<termEntry><langSet xml:lang="en"><tig><term>cat</term></tig></langSet></termEntry>'
        "</body></text></martif>"
    )
    glossaries = [
        [(term.source, term.targets) for term in Glossary.read(path, ("en", "de")).terms]
        for path in (tsv, semicolons, compressed, tbx)
    ]
    assert glossaries[0] == [("house", ("Haus", "Hauses")), ("New York", ("New York",)), ("Acme", ("Acme",))]
    assert glossaries[1:] == glossaries[:1] * 3
    assert Glossary.read(tsv).terms[0].location == f"{tsv}, line 4"
    assert [term.is_untranslated for term in Glossary.read(tsv).terms] == [False, True, True]


BOMB = '<!DOCTYPE martif [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><martif><term>&b;</term></martif>'
EXTERNAL_ENTITY = (
    '<!DOCTYPE martif [<!ENTITY x SYSTEM "file:///etc/passwd">]><martif><term>&x;</term></martif>'
)


def test_glossary_lines_without_tabs_are_reported(tmp_path, caplog):
    path = tmp_path / "g.tsv"
    path.write_text("car\tWagen\nAcme\ndog Hund\n# a note\ncat Katze\n")
    assert len(list(read_terms(path))) == 4
    assert [record.getMessage().partition(" without")[0] for record in caplog.records] == [
        f"{path}: line 3 and 1 further lines"
    ]
    caplog.clear()
    path.write_text("car\tWagen\nAcme\nNew York\t\n")
    assert len(list(read_terms(path))) == 3 and not caplog.records


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tsv", "house\tHaus\ncar\tAuto\nhouse\tHeim\n", "line 1 and 'Heim' in .*line 3"),
        ("a.tsv", "\tHaus\n", "line 1: the target 'Haus' has no source"),
        ("a.tsv", b"house\tHa\xffus\n", "line 1 is not UTF-8"),
        ("a.tsv", "house\t" + "x" * 1001, "line 1: the term or its translation is longer than 1000"),
        ("a.csv", 'a,b\n"house,Haus', "line 2: not comma-separated"),
        ("a.docx", "house\tHaus\n", "a .tsv, .csv or .tbx file"),
        ("a.tbx", BOMB, "declares the entity 'a'"),
        ("a.tbx", EXTERNAL_ENTITY, "declares the entity 'x'"),
        ("a.tbx", "<html></html>", "not a TBX file: its root is <html>"),
        ("a.tbx", "<martif><body>", "line 1: not a complete TBX file"),
        ("a.tbx", "<tbx><conceptEntry></conceptEntry></tbx>", "none of its 1 entries has terms in both"),
    ],
)
def test_invalid_glossary_files_are_rejected(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=words):
        Glossary.read(path, ("en", "de"))


@pytest.mark.parametrize("value", [3, {"house": 4}, {5: "x"}, {"house": ["Haus", 1]}])
def test_invalid_term_mappings_are_rejected(value):
    with pytest.raises(SettingsError):
        Glossary.from_argument(value)


def test_contradictory_glossary_entries_are_rejected():
    with pytest.raises(DataError, match="'Haus' in entry 1 and 'Heim' in entry 2"):
        Glossary.from_argument({"my house": "Haus", "my  house": "Heim"})
    assert len(Glossary.from_argument({"my house": "Haus", "my  house": "Haus"})) == 1


@given(st.sampled_from(["a.tsv", "a.csv", "a.tbx"]), st.text(max_size=60) | st.binary(max_size=60))
def test_arbitrary_glossary_file_is_read_or_raises_uwaga_error(tmp_path_factory, name, content):
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogatepass"))
    with contextlib.suppress(UwagaError):
        Glossary(read_terms(path, ("en", "de")))


@pytest.mark.slow
def test_terms_of_a_glossary_with_100_000_terms_are_matched():
    glossary = Glossary(Term(f"word{n} of {n % 7}", (f"Wort{n}",), "here") for n in range(100_000))
    text = " ".join(f"word{n} of {n % 7}" for n in range(0, 100_000, 100))
    assert len(glossary.find(text)) == 1000

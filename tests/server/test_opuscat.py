"""Replayed requests of OPUS-CAT's clients.

- Helsinki-NLP/OPUS-CAT: ``OmegaTPlugin``, ``OpusCatTranslator.java``; ``Trados2019Plugin``,
  ``OpusCatMtServiceConnection.cs`` and ``ConnectionControl.xaml.cs``; ``memoQPlugin``,
  ``OpusCatMTSession.cs`` and ``OpusCatMTOptionsForm.cs``; ``OpusCatChromeExtension/connector.js``; its
  documentation of Wordfast Pro and Classic.
- briacp's plugin for OmegaT, ``OpusMT.java``; LoopCAT's bridge to OPUS-CAT.
"""

# ruff: noqa: E501 (a table of requests)

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running_server import RunningServer, running_server
from shapes import fits

from uwaga.translator import Translator
from uwaga_server.dialects.opuscat import translation_pair

pytest_plugins = "server_fixtures"

TEXT = "The weather is nice; isn't it?"
TRADOS = {
    "content-type": "application/json",
    "accept": "application/json, text/json, text/x-json, text/javascript",
}
PAIR = {
    "translation": str, "Translation": str,
    "SegmentedSourceSentence": ["▁The", "▁weather", "▁is", "▁nice", ";", "▁isn't", "▁it", "?"],
    "SegmentedTranslation": list, "SegmentedAlignmentSourceToTarget": dict,
    "SegmentedAlignmentTargetToSource": dict, "AlignmentString": str, "RawTranslation": str,
    "Segmentation": 1, "AutoEditedTranslation": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [
        ("GET", "/MTRestService/TranslateJson", {"input": TEXT, "modelTag": "", "srcLangCode": "en", "tokenCode": "0", "trgLangCode": "de"}),
        ("GET", "/MTRestService/TranslateJson", {"input": TEXT, "srcLangCode": "en", "trgLangCode": "de"}),
        ("GET", "/MtRestService/TranslateJson", {"tokenCode": "0", "input": TEXT, "srcLangCode": "en", "trgLangCode": "de", "modelTag": "law"}),
        ("GET", "/MtRestService/TranslateJson", {"tokenCode": "0", "input": TEXT, "srcLangCode": "eng", "trgLangCode": "ger", "modelTag": '""'}),
        ("GET", "/MTRestService/TranslateJson", {"tokenCode": "0", "input": TEXT, "modelTag": ""}),
        ("GET", "/MTRestService/TranslateJson", {"tokenCode": "", "input": TEXT, "srcLangCode": "EN", "trgLangCode": "DE"}),
        ("POST", "/MTRestService/TranslatePost", {"tokenCode": "0", "input": TEXT, "srcLangCode": "en", "trgLangCode": "de", "modelTag": ""}),
        ("GET", "/MTRestService/TranslateJson", {"tokenCode": "0", "input": TEXT, "srcLangCode": "en-GB", "trgLangCode": "de", "modelTag": "", "inputIsSingleSentence": "true"}),
    ],
    ids=["OmegaT", "OmegaT by briacp", "Trados", "memoQ", "Chrome", "Wordfast Classic", "Wordfast Pro", "LoopCAT"],
)  # fmt: skip
def test_segments_sent_by_each_opus_cat_client_are_translated(server, translator, method, path, params):
    response = httpx.request(method, f"{server.url}{path}", params=params, headers=TRADOS, timeout=60)
    pair = response.json()
    assert response.status_code == 200 and fits(pair, PAIR), response.text
    assert pair["translation"] == pair["Translation"] == translator.translate(TEXT).text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "shape"),
    [
        ("GET", "ListSupportedLanguagePairs", None, 200, ["en-de"]),
        ("GET", "ListSupportedLanguagePairs?tokenCode=0", None, 200, ["en-de"]),
        ("GET", "GetLanguagePairModelTags?tokenCode=0&srcLangCode=en&trgLangCode=de", None, 200, []),
        ("GET", "CheckModelStatus?tokenCode=0&srcLangCode=en&trgLangCode=de&modelTag=", None, 200, "Primary model bundled for en-de will be used."),
        ("GET", "CheckModelStatus?tokenCode=0&srcLangCode=en&trgLangCode=fi&modelTag=", None, 200, "No model available for en-fi."),
        ("POST", "PreOrderBatch?tokenCode=0&srcLangCode=en&trgLangCode=de&modelTag=", [TEXT, "Hello"], 200, None),
        ("POST", "PreOrderBatch?tokenCode=0&srcLangCode=en&trgLangCode=de&modelTag=", [], 400, {"Message": str}),
        ("POST", "PreOrderBatch?tokenCode=0&srcLangCode=en&trgLangCode=fi&modelTag=", [TEXT], 400, {"Message": str}),
        ("POST", "PreOrderBatch?tokenCode=0&srcLangCode=en&trgLangCode=de&modelTag=", {"a": 1}, 422, {"Message": str}),
        ("POST", "Customize?tokenCode=0&srcLangCode=en&trgLangCode=de&modelTag=a", {"input": []}, 404, {"Message": str}),
        ("GET", "TranslateJson?input=Hello&srcLangCode=en&trgLangCode=fi", None, 400, {"Message": lambda text: "'fi' is not available" in text}),
        ("GET", "TranslateJson?input=Hello&srcLangCode=en&inputIsSingleSentence=maybe", None, 400, {"Message": str}),
        ("GET", f"TranslateJson?input=Hello&srcLangCode={'e' * 60_000}&trgLangCode=de", None, 400, {"Message": str}),
        ("DELETE", "TranslateJson", None, 405, {"Message": str}),
    ],
)  # fmt: skip
def test_auxiliary_and_invalid_requests_get_the_responses_of_opus_cat(
    server: RunningServer, method: str, path: str, body: Any, status: int, shape: Any
):
    kwargs = {} if body is None else {"json": body}
    for prefix in ("MTRestService", "MtRestService"):
        response = httpx.request(method, f"{server.url}/{prefix}/{path}", timeout=60, **kwargs)
        assert response.status_code == status, response.text
        assert not response.content if shape is None else fits(response.json(), shape), response.text


def test_translation_is_returned_as_plain_text(server: RunningServer, translator: Translator):
    for name in ("Translate", "TranslateStream"):
        response = server.get(f"/MTRestService/{name}", params={"input": TEXT})
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert response.text == translator.translate(TEXT).text


@pytest.mark.slow
def test_target_language_may_be_omitted_only_if_unique(tmp_path):
    models = [{"name": "bundled"}, {"name": "bundled", "source": "en", "target": "fr"}]
    with running_server(tmp_path, dialects=["opuscat"], models=models) as server:
        response = server.get("/MTRestService/TranslateJson", params={"input": TEXT})
        assert (response.status_code, "de, fr" in response.json()["Message"]) == (400, True)


@given(st.lists(st.sampled_from([TEXT, "A man sleeps.", "🙂", "a  b", "\n", "我", "", " ", "«Hello»"])))
def test_response_segments_form_the_text_and_alignment_links_index_them(translator, parts):
    """The plugins' ``TagRestorer.cs`` expects segments that form the text and links as pairs of segment indices."""
    translation = translator.translate(" ".join(parts), alignment=True)
    pair: Any = translation_pair(translation)
    for text, segments in (
        (translation.source, pair["SegmentedSourceSentence"]),
        (translation.text, pair["SegmentedTranslation"]),
    ):
        assert "".join(segments).replace("▁", " ").split() == text.split()
    links = [tuple(map(int, link.split("-"))) for link in pair["AlignmentString"].split()]
    forward, backward = pair["SegmentedAlignmentSourceToTarget"], pair["SegmentedAlignmentTargetToSource"]
    assert [(int(source), target) for source, targets in forward.items() for target in targets] == links
    assert (
        sorted((source, int(target)) for target, sources in backward.items() for source in sources) == links
    )
    assert all(
        source < len(pair["SegmentedSourceSentence"]) and target < len(pair["SegmentedTranslation"])
        for source, target in links
    )

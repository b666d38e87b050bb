"""Values of the wrong type: each option is rejected by name before any computation."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import uwaga
from uwaga.errors import SettingsError
from uwaga.search import SearchOptions
from uwaga.settings.load_options import LoadOptions

NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"
INVALID_VALUES = st.one_of(
    st.just("x"), st.just(b"beam"), st.just(object()), st.just(10**5000), st.just(float("nan")), st.just({}),
    st.just({"a"}), st.just(np.ones(2)), st.just(np.float32(3)), st.just([["x"]]), st.just(["1"]),
    st.complex_numbers(allow_nan=False), st.just(int),
)  # fmt: skip
"""Values outside the type and range of every option."""


@pytest.fixture(scope="module")
def numbers():
    return uwaga.load(NUMBERS, threads=1)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(SearchOptions)])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=INVALID_VALUES)
def test_invalid_search_option_error_names_the_option(numbers, name, value):
    if name == "max_ratio" and isinstance(value, int):
        return  # a number, and a limit that never binds
    with pytest.raises(SettingsError, match=rf"^{name} must be"):
        numbers.translate("one", **{name: value})


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(LoadOptions)])
@given(value=INVALID_VALUES)
def test_invalid_load_option_error_names_the_option(name, value):
    if isinstance(value, str) and name in ("source", "target", "shortlist", "adapter", "draft"):
        return
    with pytest.raises(SettingsError, match=rf"^{name} must be"):
        uwaga.load(NUMBERS, **{name: value})


@pytest.mark.parametrize("value", [5, 1.5, b"numbers", {}, object()])
def test_model_name_of_the_wrong_type_is_rejected(value):
    with pytest.raises(SettingsError, match=r"^name must be"):
        uwaga.load(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=INVALID_VALUES)
def test_invalid_translate_or_score_argument_error_names_the_argument(numbers, value):
    with pytest.raises(SettingsError, match=r"^split must be"):
        numbers.translate("one", split=value)
    with pytest.raises(SettingsError, match=r"^batch_tokens must be"):
        numbers.score([("one", "eins")], batch_tokens=value)
    if not isinstance(value, str):
        with pytest.raises(SettingsError, match=r"^source must be"):
            numbers.translate("one", source=value)
        with pytest.raises(SettingsError, match=r"^target must be"):
            numbers.score([("one", "eins")], target=value)

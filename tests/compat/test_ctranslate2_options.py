"""CTranslate2's interface with models of any format: refused options, and results of models."""

import asyncio
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import fields

import numpy as np
import pytest

import uwaga
import uwaga_compat.ctranslate2 as ct2
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.errors import ModelError, SettingsError, TextTooLongError, UwagaError
from uwaga_compat.ctranslate2.options import UNSUPPORTED_OPTIONS, GenerationOptions, TranslationOptions

CAR = ["▁I", "▁want", "▁to", "▁buy", "▁a", "▁car", "."]
HELLO = ["▁Hello", "."]


@pytest.fixture(scope="module")
def translator():
    return ct2.Translator("bundled", intra_threads=1)


def test_compatible_translator_matches_uwaga_translator(translator):
    texts = ["I want to buy a car.", "Hello."]
    expected = uwaga.Translator.load().translate(texts, beam=2, split="never", max_ratio=100.0)
    results = translator.translate_batch([CAR, HELLO])
    pieces = ["".join(result.hypotheses[0]).replace("▁", " ").strip() for result in results]
    assert pieces == [translation.text for translation in expected]


def test_source_may_end_with_the_end_token(translator):
    with_end_token = [*CAR, "</s>"]
    [plain], [with_end] = (
        translator.translate_batch([text], return_scores=True) for text in (CAR, with_end_token)
    )
    assert (plain.hypotheses, plain.scores) == (with_end.hypotheses, with_end.scores)
    assert translator.score_batch([CAR], [["▁Ich"]]) == translator.score_batch([with_end_token], [["▁Ich"]])


def test_batch_size_and_workers_do_not_change_results(translator):
    texts = [CAR, HELLO, ["▁Where"], [], [*CAR, *CAR]] * 3
    options = {"beam_size": 3, "num_hypotheses": 2, "return_scores": True, "return_attention": True}
    expected = translator.translate_batch(texts, **options)
    parallel = ct2.Translator("bundled", inter_threads=3, intra_threads=1, max_queued_batches=1)
    for size, kind in ((1, "examples"), (4, "examples"), (20, "tokens")):
        assert parallel.translate_batch(texts, max_batch_size=size, batch_type=kind, **options) == expected
        assert (
            list(parallel.translate_iterable(texts, max_batch_size=size, batch_type=kind, **options))
            == expected
        )
    assert parallel.num_active_batches == parallel.num_queued_batches == 0


def test_random_seed_makes_samples_reproducible(translator):
    options = {"beam_size": 1, "sampling_topk": 10, "num_hypotheses": 4, "return_scores": True}
    results = []
    for seed in (1, 1, 2):
        ct2.set_random_seed(seed)
        results.append(translator.translate_batch([CAR], **options))
    assert results[0] == results[1] != results[2]
    steps = []
    translator.translate_batch([CAR], callback=steps.append, **options)
    for number in range(4):
        sample_steps = [step for step in steps if step.hypothesis_id == number]
        assert [step.step for step in sample_steps] == list(range(len(sample_steps)))
        assert sample_steps[-1].is_last


def test_callback_receives_the_tokens_of_the_result(translator):
    prefix = ["▁Ich", "▁will"]
    steps = []
    greedy = {"beam_size": 1, "return_scores": True, "return_end_token": True}
    [plain] = translator.translate_batch([CAR], [prefix], **greedy)
    [result] = translator.translate_batch([CAR], [prefix], callback=steps.append, **greedy)
    assert result == plain
    assert [step.token for step in steps] == plain.hypotheses[0]
    assert [step.log_prob for step in steps[:2]] == [0.0, 0.0]
    assert sum(step.log_prob for step in steps) / len(steps) == pytest.approx(plain.scores[0], abs=1e-6)
    [cut] = translator.translate_batch([CAR], max_decoding_length=3, callback=steps.append, **greedy)
    assert len(cut.hypotheses[0]) == 3
    assert steps[-1].is_last and steps[-1].token == cut.hypotheses[0][-1]


def test_option_names_and_defaults_match_ctranslate2():
    """Compared with the signature in the installed library's docstrings."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    methods = {
        TranslationOptions: (ctranslate2.Translator.translate_batch, {"source", "target_prefix"}),
        GenerationOptions: (ctranslate2.Generator.generate_batch, {"start_tokens"}),
    }
    for record, (method, inputs) in methods.items():
        defaults = dict(re.findall(r"(\w+): [^:=]+ = ([^,)]+)", method.__doc__))
        excluded = {"max_batch_size", "batch_type", "asynchronous"} | inputs
        expected = {name: value for name, value in defaults.items() if name not in excluded}
        assert {option.name: str(option.default) for option in fields(record)} == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({name: True if accepted is False else 0.5}, name)
            for name, (accepted, _) in UNSUPPORTED_OPTIONS.items()
        ),
        ({"beam_sise": 2}, "unknown decoding option 'beam_sise'; did you mean 'beam_size'"),
        ({"beam_size": "four"}, "beam_size must be a whole number"),
        ({"beam_size": 10_000}, "beam_size must be 1024 or less"),
        ({"num_hypotheses": 3}, "num_hypotheses 3 is greater than beam_size"),
        ({"sampling_topk": 5}, "sampling_topk=5 and beam_size=2: sampling with beam search"),
        ({"sampling_topp": 0}, "sampling_topp"),
        ({"end_token": "."}, "end_token='.': only the model's end token, '</s>', is supported"),
        ({"suppress_sequences": ["▁ein"]}, "suppress_sequences: '▁ein' must be a list of tokens"),
        ({"suppress_sequences": [["▁ein", "x-y"]]}, "the token 'x-y' is not in the vocabulary"),
        ({"prefix_bias_beta": 1}, "prefix_bias_beta=1: the value must be less than 1"),
        ({"prefix_bias_beta": 0.5, "return_alternatives": True}, "prefix_bias_beta cannot be combined with"),
        ({"repetition_penalty": 0}, "repetition_penalty must be"),
        ({"callback": print}, "callback: supported only with beam_size=1"),
        ({"min_alternative_expansion_prob": 2}, "min_alternative_expansion_prob"),
        ({"max_decoding_length": 0}, "max_decoding_length"),
        ({"min_decoding_length": 5, "max_decoding_length": 4}, "is greater than the maximum"),
        ({"max_batch_size": -1}, "max_batch_size"),
        ({"batch_type": "words"}, "batch_type='words': invalid batch type"),
        ({"target_prefix": "▁Ich"}, "target_prefix"),
    ],
)
def test_invalid_options_are_refused(translator, options, message):
    with pytest.raises(ct2.ArgumentError, match=message) as caught:
        translator.translate_batch([CAR], **options)
    assert isinstance(caught.value, SettingsError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("source", ["▁Hello", ["▁Hello"], [[1, 2]], [None], 3, [["▁a"], "b"]])
def test_invalid_inputs_are_refused(translator, source):
    with pytest.raises(ct2.ArgumentError, match="source"):
        translator.translate_batch(source)
    with pytest.raises(UwagaError, match="less examples"):
        translator.translate_batch([CAR, HELLO], [["▁Ich"]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"compute_type": "int16"}, "compute_type='int16': unsupported compute type: on cpu"),
        ({"compute_type": "float16"}, "compute_type='float16': unsupported"),
        ({"compute_type": "double"}, "compute_type='double': invalid compute type"),
        ({"device": "tpu"}, "device='tpu': unsupported device"),
        ({"device_index": 1}, "device_index=1: invalid device index"),
        ({"flash_attention": True}, "flash_attention=True: not supported by uwaga"),
        ({"tensor_parallel": True}, "tensor_parallel=True: not supported by uwaga"),
        ({"inter_threads": 0}, "inter_threads"),
        ({"intra_threads": -1}, "intra_threads"),
        ({"max_queued_batches": -2}, "max_queued_batches"),
        ({"files": {"../model.bin": b""}}, "files: '../model.bin' is not a plain file name"),
        ({"files": {"": b""}}, "files: '' is not a plain file name"),
        ({"files": {"model.bin": "text"}}, "files: 'model.bin' must be bytes"),
    ],
)
def test_invalid_constructor_arguments_are_refused(arguments, message):
    with pytest.raises(ct2.ArgumentError, match=message):
        ct2.Translator("bundled", **arguments)


def test_unloadable_models_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ct2.RunError, match="unable to open file or model"):
            ct2.Translator(path)
    with pytest.raises(ct2.RunError, match="cannot be used as a generator"):
        ct2.Generator("bundled")
    with pytest.raises(ct2.RunError, match="unable to open file"):
        ct2.Translator("memory", files={"model.bin": b"\6\0\0\0"})
    assert not issubclass(ct2.RunError, ModelError)


def test_asynchronous_result_is_not_done_before_the_next_call(monkeypatch):
    class EagerPool(ThreadPoolExecutor):
        def submit(self, *args):
            future = super().submit(*args)
            wait([future], timeout=0.5)
            return future

    monkeypatch.setattr("uwaga_compat.ctranslate2.workers.ThreadPoolExecutor", EagerPool)
    translator = ct2.Translator("bundled", intra_threads=1)
    [result] = translator.translate_batch([HELLO], asynchronous=True)
    translator.unload_model()
    assert translator.model_is_loaded and result.result().hypotheses


def test_models_are_loaded_from_memory_and_with_int8_weights(translator):
    files = {path.name: path.read_bytes() for path in BUNDLED.iterdir()}
    from_memory = ct2.Translator("memory", files=files)
    assert from_memory.compute_type == "float32"
    assert from_memory.translate_batch([CAR]) == translator.translate_batch([CAR])
    quantised = ct2.Translator("bundled", compute_type="int8")
    assert quantised.compute_type == "int8_float32"
    assert quantised.translate_batch([HELLO]) == translator.translate_batch([HELLO])


def test_output_file_is_unchanged_after_an_error(translator, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("▁Hello .\n" + "▁a " * 3000 + "\n", encoding="utf-8")
    out.write_text("before\n")
    with pytest.raises(TextTooLongError):
        translator.translate_file(source, out, max_input_length=0)
    with pytest.raises(ct2.ArgumentError, match="return_attention: not supported for files"):
        translator.translate_file(source, out, return_attention=True)
    assert out.read_text() == "before\n"
    stats = translator.translate_file(source, out, max_input_length=4, with_scores=True, num_hypotheses=2)
    assert (stats.num_examples, len(out.read_text(encoding="utf-8").splitlines())) == (2, 4)


def test_generate_tokens_yields_steps_one_by_one(translator):
    results = translator.generate_tokens([*CAR, *CAR])
    assert next(results).step == 0
    results.close()
    assert list(translator.generate_tokens([])) == []
    for options in ({"beam_size": 2}, {"callback": print}, {"num_hypotheses": 2, "sampling_topk": 0}):
        with pytest.raises(ct2.ArgumentError):
            next(translator.generate_tokens(CAR, **options))


def test_generator_runs_a_hugging_face_model(tmp_path):
    pytest.importorskip("transformers")
    import gpt2_folders
    import pretrained_tokenisers

    pieces = pretrained_tokenisers.older_format("gpt2")
    end = pieces.peer.eos_token_id
    sizes = {"vocab_size": pieces.ids.vocabulary, "bos_token_id": end, "eos_token_id": end}
    gpt2_folders.make(tmp_path / "gpt2", **sizes)
    pieces.peer.save_pretrained(tmp_path / "gpt2")
    generator = ct2.Generator(tmp_path / "gpt2")
    assert generator.num_generators == 1
    prompts = [["d", "f"], ["h"], ["fee", "j", "p"]]
    expected = [
        generator.generate_batch([prompt], max_length=5, include_prompt_in_result=False)[0]
        for prompt in prompts
    ]
    options = {"max_length": 5, "include_prompt_in_result": False, "max_batch_size": 2}
    assert generator.generate_batch(prompts, **options) == expected
    assert (
        list(generator.generate_iterable(prompts, max_length=5, include_prompt_in_result=False)) == expected
    )
    assert list(generator.score_iterable(prompts)) == generator.score_batch(prompts)

    async def tokens():
        return [step.token async for step in generator.async_generate_tokens(prompts[0], max_length=5)]

    assert asyncio.run(tokens()) == expected[0].sequences[0]
    stopped = list(generator.generate_tokens(prompts[0], max_length=5, callback=lambda step: step.step == 1))
    assert [step.token for step in stopped] == expected[0].sequences[0][:2]
    with pytest.raises(ct2.ArgumentError, match="prompt 2 has no tokens"):
        generator.generate_batch([["d"], []])
    for name in ("coverage_penalty", "target_prefix", "return_attention"):
        with pytest.raises(ct2.ArgumentError, match=f"unknown decoding option '{name}'"):
            generator.generate_batch(prompts, **{name: 1})


@pytest.mark.parametrize(("name", "attends"), [("bahdanau", True), ("sutskever", False)])
def test_attention_of_recurrent_models_is_returned_or_refused(tmp_path, name, attends):
    import tiny_models as tiny
    import torch
    from recurrent_variants import VARIANTS

    from uwaga.models.build import build_model

    words = tiny.tokeniser()
    torch.manual_seed(3)
    shape = VARIANTS[name].model_copy(update={"max_length": 40})
    model = build_model(shape, words.symbols, words.size, words.size).eval()
    tiny.save(tmp_path / name, model, words)
    translator = ct2.Translator(tmp_path / name)
    source = words.pieces(words.encode("the dog sees the cat"))
    options = {"max_decoding_length": 9, "return_attention": True}
    if not attends:
        with pytest.raises(UwagaError, match="no source attention"):
            translator.translate_batch([source], **options)
        return
    [result] = translator.translate_batch([source, source], **options)[:1]
    assert len(result.attention[0]) == len(result.hypotheses[0])
    assert {len(row) for row in result.attention[0]} == {len(source)}


def test_both_import_statements_for_the_module_work():
    code = (
        "from uwaga.compat import ctranslate2\n"
        "import uwaga.compat.ctranslate2 as ctranslate2\n"
        "device = 'cuda' if ctranslate2.get_cuda_device_count() else 'cpu'\n"
        "assert ctranslate2.__version__.startswith('4.')\n"
        "ctranslate2.set_log_level(20)\n"
        "assert ctranslate2.get_log_level() == 20\n"
        "assert ctranslate2.Translator('bundled', device=device).translate_batch([['▁Hello', '.']])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_module_exports_the_names_of_ctranslate2():
    peer = pytest.importorskip("ctranslate2")
    names = {name for name in dir(peer) if not name.startswith("_")}
    submodules = {"extensions", "logging", "sys", "version"}
    missing = names - set(ct2.__all__) - submodules
    assert missing == {"Encoder", "EncoderForwardOutput", "MpiInfo", "converters", "models", "specs"}
    assert ct2.__version__.split(".")[0] == peer.__version__.split(".")[0]
    assert ct2.get_cuda_device_count() == peer.get_cuda_device_count()
    with pytest.raises(AttributeError, match="uwaga convert"):
        _ = ct2.converters


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int16", "int32"])
def test_storage_view_behaves_like_ctranslate2_storage_view(dtype):
    peer = pytest.importorskip("ctranslate2")
    array = np.arange(6, dtype=dtype).reshape(2, 3)
    for library in (peer, ct2):
        view = library.StorageView.from_array(array)
        assert (view.shape, view.device, view.device_index) == ([2, 3], "cpu", 0)
        assert str(view.dtype) == f"DataType.{dtype}"
        np.testing.assert_array_equal(np.array(view), array)
        if library is peer and dtype.startswith("int"):
            continue  # CTranslate2 does not convert these
        converted = view.to(library.DataType.float32)
        assert np.array(converted).dtype == np.float32
        assert str(converted) == " 0 1 2 3 4 5\n[cpu:0 float32 storage viewed as 2x3]"
        with pytest.raises(AttributeError, match="CPU"):
            _ = view.__cuda_array_interface__
    read_only = np.zeros(2, dtype=np.float32)
    read_only.flags.writeable = False
    for wrong, words in (
        ([1, 2], "array interface"),
        (np.zeros(2), "Unsupported type"),
        (np.zeros(2, dtype=np.uint8), "Unsupported type"),
        (array.transpose(), "contiguous"),
        (read_only, "read-only"),
    ):
        for library in (peer, ct2):
            with pytest.raises(ValueError, match=words):
                library.StorageView.from_array(wrong)


def test_storage_views_round_to_bfloat16():
    """Values are rounded to the nearest number with 8 significant bits, ties to even."""
    step = 2.0**-7
    numbers = [1 + step / 2, 1 + 1.5 * step, -1 - 0.6 * step, 3e38, np.finfo(np.float32).max, -np.inf, np.nan]
    rounded = [1, 1 + 2 * step, -1 - step, 3.0039e38, np.inf, -np.inf, np.nan]
    for library in (ct2, pytest.importorskip("ctranslate2")):
        view = library.StorageView.from_array(np.array(numbers, dtype=np.float32))
        view = view.to(library.DataType.bfloat16)
        assert str(view.dtype) == "DataType.bfloat16"
        np.testing.assert_allclose(np.array(view.to(library.DataType.float32)), rounded, rtol=1e-4)
        with pytest.raises(RuntimeError, match="bfloat16 is not supported in the array interface"):
            np.array(view)
        scalar = library.StorageView.from_array(np.array(3, dtype=np.float32))
        assert str(scalar) == " 3\n[cpu:0 float32 storage viewed as scalar]"

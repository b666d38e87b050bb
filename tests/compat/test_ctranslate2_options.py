"""CTranslate2's interface over models of any format: what is refused, and what uwaga's own models give."""

import asyncio
import re
import subprocess
import sys
from dataclasses import fields

import pytest

import uwaga
import uwaga.compat.ctranslate2 as ct2
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.compat.ctranslate2.options import LACKING, GenerationOptions, TranslationOptions
from uwaga.errors import ModelError, SettingsError, TextTooLongError, UwagaError

CAR = ["▁I", "▁want", "▁to", "▁buy", "▁a", "▁car", "."]
HELLO = ["▁Hello", "."]


@pytest.fixture(scope="module")
def translator():
    return ct2.Translator("bundled", intra_threads=1)


def test_the_bundled_model_translates_as_everywhere(translator):
    texts = ["I want to buy a car.", "Hello."]
    wanted = uwaga.Translator.load().translate(texts, beam=2, split="never", max_ratio=100.0)
    found = translator.translate_batch([CAR, HELLO])
    pieces = ["".join(one.hypotheses[0]).replace("▁", " ").strip() for one in found]
    assert pieces == [one.text for one in wanted]


def test_the_end_token_of_a_source_may_be_given(translator):
    ended = [*CAR, "</s>"]
    [bare], [whole] = (translator.translate_batch([text], return_scores=True) for text in (CAR, ended))
    assert (bare.hypotheses, bare.scores) == (whole.hypotheses, whole.scores)
    assert translator.score_batch([CAR], [["▁Ich"]]) == translator.score_batch([ended], [["▁Ich"]])


def test_batches_of_any_size_and_workers_give_the_same(translator):
    texts = [CAR, HELLO, ["▁Where"], [], [*CAR, *CAR]] * 3
    options = {"beam_size": 3, "num_hypotheses": 2, "return_scores": True, "return_attention": True}
    wanted = translator.translate_batch(texts, **options)
    busy = ct2.Translator("bundled", inter_threads=3, intra_threads=1, max_queued_batches=1)
    for size, kind in ((1, "examples"), (4, "examples"), (20, "tokens")):
        assert busy.translate_batch(texts, max_batch_size=size, batch_type=kind, **options) == wanted
        assert list(busy.translate_iterable(texts, max_batch_size=size, batch_type=kind, **options)) == wanted
    assert busy.num_active_batches == busy.num_queued_batches == 0


def test_samples_are_those_of_the_seed(translator):
    options = {"beam_size": 1, "sampling_topk": 10, "num_hypotheses": 4, "return_scores": True}
    found = []
    for seed in (1, 1, 2):
        ct2.set_random_seed(seed)
        found.append(translator.translate_batch([CAR], **options))
    assert found[0] == found[1] != found[2]
    seen = []
    translator.translate_batch([CAR], callback=seen.append, **options)
    for number in range(4):
        of_it = [one for one in seen if one.hypothesis_id == number]
        assert [one.step for one in of_it] == list(range(len(of_it)))
        assert of_it[-1].is_last


def test_a_callback_sees_the_tokens_of_the_result(translator):
    prefix = ["▁Ich", "▁will"]
    seen = []
    greedy = {"beam_size": 1, "return_scores": True, "return_end_token": True}
    [plain] = translator.translate_batch([CAR], [prefix], **greedy)
    [found] = translator.translate_batch([CAR], [prefix], callback=seen.append, **greedy)
    assert found == plain
    assert [one.token for one in seen] == plain.hypotheses[0]
    assert [one.log_prob for one in seen[:2]] == [0.0, 0.0]
    assert sum(one.log_prob for one in seen) / len(seen) == pytest.approx(plain.scores[0], abs=1e-6)
    [cut] = translator.translate_batch([CAR], max_decoding_length=3, callback=seen.append, **greedy)
    assert len(cut.hypotheses[0]) == 3
    assert seen[-1].is_last and seen[-1].token == cut.hypotheses[0][-1]


def test_every_option_has_the_name_and_default_of_ctranslate2():
    """Held to the signature that the installed library prints."""
    theirs = pytest.importorskip("ctranslate2")
    methods = {
        TranslationOptions: (theirs.Translator.translate_batch, {"source", "target_prefix"}),
        GenerationOptions: (theirs.Generator.generate_batch, {"start_tokens"}),
    }
    for record, (method, inputs) in methods.items():
        defaults = dict(re.findall(r"(\w+): [^:=]+ = ([^,)]+)", method.__doc__))
        left = {"max_batch_size", "batch_type", "asynchronous"} | inputs
        wanted = {name: value for name, value in defaults.items() if name not in left}
        assert {one.name: str(one.default) for one in fields(record)} == wanted


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        *(({name: True if only is False else 0.5}, name) for name, (only, _) in LACKING.items()),
        ({"beam_sise": 2}, "unknown decoding option 'beam_sise'; did you mean 'beam_size'"),
        ({"beam_size": "four"}, "beam_size must be a whole number"),
        ({"beam_size": 10_000}, "beam_size must be 1024 or less"),
        ({"num_hypotheses": 3}, "num_hypotheses 3 is greater than beam_size"),
        ({"sampling_topk": 5}, "sampling_topk=5 and beam_size=2: sampling in a beam"),
        ({"sampling_topp": 0}, "sampling_topp"),
        ({"end_token": "."}, "end_token='.': a target ends with the model's own, '</s>'"),
        ({"suppress_sequences": [["▁ein", "▁Auto"]]}, "only single tokens can be suppressed"),
        ({"suppress_sequences": ["▁ein"]}, "only single tokens can be suppressed"),
        ({"callback": print}, "callback: tokens are reported with beam_size=1"),
        ({"min_alternative_expansion_prob": 2}, "min_alternative_expansion_prob"),
        ({"max_decoding_length": 0}, "max_decoding_length"),
        ({"min_decoding_length": 5, "max_decoding_length": 4}, "is greater than the maximum"),
        ({"max_batch_size": -1}, "max_batch_size"),
        ({"batch_type": "words"}, "batch_type='words': invalid batch type"),
        ({"target_prefix": "▁Ich"}, "target_prefix"),
    ],
)
def test_what_is_impossible_or_missing_is_refused_by_name(translator, options, complaint):
    with pytest.raises(ct2.ArgumentError, match=complaint) as caught:
        translator.translate_batch([CAR], **options)
    assert isinstance(caught.value, SettingsError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("source", ["▁Hello", ["▁Hello"], [[1, 2]], [None], 3, [["▁a"], "b"]])
def test_inputs_that_are_no_tokens_are_refused(translator, source):
    with pytest.raises(ct2.ArgumentError, match="source"):
        translator.translate_batch(source)
    with pytest.raises(UwagaError, match="less examples"):
        translator.translate_batch([CAR, HELLO], [["▁Ich"]])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"compute_type": "int16"}, "compute_type='int16': unsupported compute type: on cpu"),
        ({"compute_type": "float16"}, "compute_type='float16': unsupported"),
        ({"compute_type": "double"}, "compute_type='double': invalid compute type"),
        ({"device": "tpu"}, "device='tpu': unsupported device"),
        ({"device_index": 1}, "device_index=1: invalid device index"),
        ({"flash_attention": True}, "flash_attention=True: uwaga does not have it"),
        ({"tensor_parallel": True}, "tensor_parallel=True: uwaga does not have it"),
        ({"inter_threads": 0}, "inter_threads"),
        ({"intra_threads": -1}, "intra_threads"),
        ({"max_queued_batches": -2}, "max_queued_batches"),
        ({"files": {"../model.bin": b""}}, "files: '../model.bin' is not the name of a file"),
        ({"files": {"": b""}}, "files: '' is not the name of a file"),
        ({"files": {"model.bin": "text"}}, "files: 'model.bin' must be bytes"),
    ],
)
def test_arguments_of_a_constructor_are_refused_by_name(arguments, complaint):
    with pytest.raises(ct2.ArgumentError, match=complaint):
        ct2.Translator("bundled", **arguments)


def test_models_that_cannot_be_loaded_are_refused(tmp_path):
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(ct2.RunError, match="unable to open file or model"):
            ct2.Translator(place)
    with pytest.raises(ct2.RunError, match="cannot be used as a generator"):
        ct2.Generator("bundled")
    with pytest.raises(ct2.RunError, match="unable to open file"):
        ct2.Translator("memory", files={"model.bin": b"\6\0\0\0"})
    assert not issubclass(ct2.RunError, ModelError)


def test_files_in_memory_and_number_formats(translator):
    files = {path.name: path.read_bytes() for path in BUNDLED.iterdir()}
    whole = ct2.Translator("memory", files=files)
    assert whole.compute_type == "float32"
    assert whole.translate_batch([CAR]) == translator.translate_batch([CAR])
    small = ct2.Translator("bundled", compute_type="int8")
    assert small.compute_type == "int8_float32"
    assert small.translate_batch([HELLO]) == translator.translate_batch([HELLO])


def test_a_file_that_fails_is_not_written(translator, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("▁Hello .\n" + "▁a " * 3000 + "\n", encoding="utf-8")
    out.write_text("before\n")
    with pytest.raises(TextTooLongError):
        translator.translate_file(source, out, max_input_length=0)
    with pytest.raises(ct2.ArgumentError, match="return_attention: not for files"):
        translator.translate_file(source, out, return_attention=True)
    assert out.read_text() == "before\n"
    stats = translator.translate_file(source, out, max_input_length=4, with_scores=True, num_hypotheses=2)
    assert (stats.num_examples, len(out.read_text(encoding="utf-8").splitlines())) == (2, 4)


def test_tokens_stream_before_the_translation_ends_and_one_may_leave(translator):
    results = translator.generate_tokens([*CAR, *CAR])
    assert next(results).step == 0
    results.close()
    assert list(translator.generate_tokens([])) == []
    for options in ({"beam_size": 2}, {"callback": print}, {"num_hypotheses": 2, "sampling_topk": 0}):
        with pytest.raises(ct2.ArgumentError):
            next(translator.generate_tokens(CAR, **options))


def test_a_generator_of_another_format_and_its_tokens_without_blocking(tmp_path):
    pytest.importorskip("transformers")
    import gpt2_folders
    import pretrained_tokenisers

    pieces = pretrained_tokenisers.older("gpt2")
    end = pieces.peer.eos_token_id
    sizes = {"vocab_size": pieces.ids.vocabulary, "bos_token_id": end, "eos_token_id": end}
    gpt2_folders.make(tmp_path / "gpt2", **sizes)
    pieces.peer.save_pretrained(tmp_path / "gpt2")
    generator = ct2.Generator(tmp_path / "gpt2")
    assert generator.num_generators == 1
    prompts = [["d", "f"], ["h"], ["fee", "j", "p"]]
    alone = [
        generator.generate_batch([one], max_length=5, include_prompt_in_result=False)[0] for one in prompts
    ]
    together = {"max_length": 5, "include_prompt_in_result": False, "max_batch_size": 2}
    assert generator.generate_batch(prompts, **together) == alone
    assert list(generator.generate_iterable(prompts, max_length=5, include_prompt_in_result=False)) == alone
    assert list(generator.score_iterable(prompts)) == generator.score_batch(prompts)

    async def tokens():
        return [one.token async for one in generator.async_generate_tokens(prompts[0], max_length=5)]

    assert asyncio.run(tokens()) == alone[0].sequences[0]
    stopped = list(generator.generate_tokens(prompts[0], max_length=5, callback=lambda one: one.step == 1))
    assert [one.token for one in stopped] == alone[0].sequences[0][:2]
    with pytest.raises(ct2.ArgumentError, match="prompt 2 has no start token"):
        generator.generate_batch([["d"], []])
    for name in ("coverage_penalty", "target_prefix", "return_attention"):
        with pytest.raises(ct2.ArgumentError, match=f"unknown decoding option '{name}'"):
            generator.generate_batch(prompts, **{name: 1})


@pytest.mark.parametrize(("name", "attends"), [("bahdanau", True), ("sutskever", False)])
def test_a_recurrent_model_returns_its_attention_if_it_has_one(tmp_path, name, attends):
    import tiny_models as tiny
    import torch
    from recurrent_variants import VARIANTS

    from uwaga.checkpoints.formats.uwaga.folder import save_model
    from uwaga.models.build import build_model

    words = tiny.tokeniser()
    torch.manual_seed(3)
    shape = VARIANTS[name].model_copy(update={"max_length": 40})
    model = build_model(shape, words.symbols, words.size, words.size).eval()
    save_model(tmp_path / name, model, shape, tiny.DECODING, words, words, ("en", "de"), "# card\n")
    translator = ct2.Translator(tmp_path / name)
    source = words.pieces(words.encode("the dog sees the cat"))
    options = {"max_decoding_length": 9, "return_attention": True}
    if not attends:
        with pytest.raises(UwagaError, match="no attention"):
            translator.translate_batch([source], **options)
        return
    [found] = translator.translate_batch([source, source], **options)[:1]
    assert len(found.attention[0]) == len(found.hypotheses[0])
    assert {len(row) for row in found.attention[0]} == {len(source)}


def test_neither_ctranslate2_nor_torch_is_imported():
    code = (
        "import sys, uwaga.compat.ctranslate2 as ct2\n"
        "assert ct2.Translator('bundled').translate_batch([['▁Hello', '.']])[0].hypotheses\n"
        "assert not {'ctranslate2', 'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

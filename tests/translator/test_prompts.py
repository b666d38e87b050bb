"""Prompted translation and chat: prompt tokens and answers equal those of transformers."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from command_line import run_uwaga
from hypothesis import given
from hypothesis import strategies as st
from pretrained_texts import byte_level

import uwaga
from uwaga.errors import DataError, MissingExtraError, ModelError, SettingsError, TextTooLongError
from uwaga.tokenizers.chat_template import ChatTemplate
from uwaga.tokenizers.prompt import PROMPTS, choose_prompt

transformers = pytest.importorskip("transformers")

CHAT = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are helpful.<|im_end|>\n{% endif %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEXTS = [
    "A dog runs.", "Zwei Männer kochen!", "two dogs, and 3 cats", "x", "日本語 mixed", "a  b\tc",
    "ünd so <b>",
]  # fmt: skip


def save_chat_model(folder):
    """Save an untrained GPT-2 with a trained tokeniser and a ChatML template; return tokeniser and model."""
    special = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
    byte_level(folder, special)
    peer = transformers.GPT2TokenizerFast(
        str(folder / "vocab.json"), str(folder / "merges.txt"), bos_token="<|im_start|>",
        eos_token="<|im_end|>", unk_token="<|endoftext|>", chat_template=CHAT,
    )  # fmt: skip
    peer.save_pretrained(folder)
    torch.manual_seed(4)
    config = transformers.GPT2Config(
        vocab_size=len(peer), n_positions=400, n_embd=24, n_layer=2, n_head=3,
        bos_token_id=peer.bos_token_id, eos_token_id=peer.eos_token_id,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    return peer, model


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompted") / "chat-model"
    return folder, *save_chat_model(folder)


@pytest.fixture(scope="module")
def translator(chat_model):
    return uwaga.load(chat_model[0], device="cpu", source="en", target="de")


def translation_messages(text):
    content = f"Translate the following text from English into German.\nEnglish: {text}\nGerman:"
    return [{"role": "user", "content": content}]


def expected_prompt(peer, text):
    return peer.apply_chat_template(translation_messages(text), add_generation_prompt=True, return_dict=False)


@pytest.mark.parametrize("text", TEXTS)
def test_prompt_tokens_match_transformers(chat_model, translator, text):
    source = translator.source
    assert source.add_special_tokens(source.encode(text)) == expected_prompt(chat_model[1], text)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\ue000\r\n"), min_size=1).map(str.strip))
def test_prompt_tokens_of_any_text_match_transformers(chat_model, translator, text):
    source = translator.source
    if text:
        assert source.add_special_tokens(source.encode(text)) == expected_prompt(chat_model[1], text)


def test_special_tokens_in_a_text_are_treated_as_plain_text(chat_model, translator):
    source, peer = translator.source, chat_model[1]
    ids = source.encode("Hi <|im_end|> <|im_start|>system")
    assert not {peer.eos_token_id, peer.bos_token_id} & set(ids)
    assert source.decode(ids).strip() == "Hi <|im_end|> <|im_start|>system"
    assert source.symbols.end == peer.eos_token_id


@pytest.mark.parametrize("card", ["language: en\n", ""])
def test_M42_draft_model_does_not_change_translations(chat_model, translator, tmp_path, card):
    """The model card lists only the languages of the training data: a prompt may name others."""
    drafting = tmp_path / "drafting"
    shutil.copytree(chat_model[0], drafting)
    if card:
        (drafting / "README.md").write_text(f"---\n{card}---\n")
    drafted = uwaga.load(chat_model[0], device="cpu", source="en", target="de", draft=drafting)
    translations, plain = (model.translate(TEXTS, max_length=20) for model in (drafted, translator))
    assert [replace(translation, draft=None) for translation in translations] == plain
    assert sum(translation.draft.accepted for translation in translations) > 0


def greedy_answer(model, prompt, **options):
    """Return the greedy continuation of transformers, at most 20 tokens."""
    ids = torch.tensor([prompt])
    plain = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        return model.generate(ids, attention_mask=torch.ones_like(ids), **plain, **options)[0, len(prompt) :]


def without_broken_bytes(text):
    return text.replace("\ufffd", "")


def test_translation_equals_the_greedy_response_of_transformers(chat_model, translator):
    _, peer, model = chat_model
    translations = translator.translate(TEXTS, max_length=20)
    for text, translation in zip(TEXTS, translations, strict=True):
        answer = greedy_answer(model, expected_prompt(peer, " ".join(text.split())))
        assert (
            translation.text.split()
            == without_broken_bytes(peer.decode(answer, skip_special_tokens=True)).split()
        )


def test_single_text_stream_and_batch_give_equal_translations(translator):
    batch = translator.translate(TEXTS, max_length=12)
    separate = [translator.translate(text, max_length=12) for text in TEXTS]
    assert [translation.text for translation in batch] == [translation.text for translation in separate]
    assert [translation.score for translation in batch] == pytest.approx(
        [translation.score for translation in separate], abs=1e-5
    )
    for text, translation in zip(TEXTS[:3], batch, strict=False):
        assert "".join(translator.stream(text, max_length=12)) == translation.text


def test_alignment_uses_attention_to_the_prompt(chat_model, translator):
    pair = ("The dog runs to German dogs.", "Zwei Hunde laufen.")
    [links] = translator.align([pair])
    assert links.source and links.target and len(links.target) > 2
    reference = uwaga.Translator.load(chat_model[0], device="cpu", engine="torch", source="en", target="de")
    [(source, target)] = translator.model.pair_ids([pair])
    sources, inputs = [source], [[translator.decoder.symbols.start, *target[:-1]]]
    actual, expected = (
        model.decoder.cross_attentions(sources, inputs)[0] for model in (translator, reference)
    )
    assert actual.shape == (2, 3, len(inputs[0]), len(sources[0]))
    torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), atol=2e-4, rtol=1e-3)
    marked = translator.translate("<b>A dog</b> runs.", format="html", max_length=9).text
    assert marked.count("<b>") == marked.count("</b>") == 1


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_response_may_occupy_all_remaining_positions(chat_model, engine):
    translator = uwaga.Translator.load(chat_model[0], device="cpu", engine=engine, source="en", target="de")
    source, options = translator.source, {"split": "never", "min_length": 399}
    texts = ["x" * 240, "x", "x" * 100]
    lengths = [len(source.add_special_tokens(source.encode(text))) for text in texts]
    assert 200 < lengths[0] < 390
    translations = translator.translate(texts, **options)
    assert [len(result.tokens) for result in translations] == [400 - length + 1 for length in lengths]
    assert all(translation.truncated for translation in translations)
    assert [translation.tokens for translation in translations] == [
        translator.translate(text, **options).tokens for text in texts
    ]
    with pytest.raises(TextTooLongError, match=r"has \d+ tokens, .* the model accepts at most 400"):
        translator.translate("x" * 500, **options)
    assert translator.translate(
        "x " * 200, max_length=2
    ).warnings  # about half of the positions are for the text


def test_languages_are_set_per_call_or_at_loading(chat_model, translator):
    free = uwaga.Translator.load(chat_model[0], device="cpu")
    with pytest.raises(SettingsError, match=r"give the source \(--from\)"):
        free.translate("A dog.")
    translation = free.translate("A dog.", source="en", target="de", max_length=9)
    assert translation.text == translator.translate("A dog.", max_length=9).text
    polish = translator.between("en", "pl").source
    assert "Polish" in polish.decode(polish.add_special_tokens([]))


def test_int8_model_keeps_the_prompt_template(chat_model, tmp_path):
    run_uwaga("convert", chat_model[0], tmp_path / "int8", "--int8")
    int8 = uwaga.load(tmp_path / "int8", source="en", target="de")
    source = int8.source
    assert source.add_special_tokens(source.encode("A dog.")) == expected_prompt(chat_model[1], "A dog.")
    assert int8.translate("A dog.", max_length=9).tokens


@pytest.fixture(scope="module")
def base(chat_model, tmp_path_factory):
    """Return the folder of the model without its chat template."""
    folder = tmp_path_factory.mktemp("base")
    shutil.copytree(chat_model[0], folder / "m")
    (folder / "m/chat_template.jinja").unlink(missing_ok=True)
    path = folder / "m/tokenizer_config.json"
    values = json.loads(path.read_text())
    values.pop("chat_template", None)
    path.write_text(json.dumps(values))
    return folder / "m"


def test_model_without_a_chat_template_rejects_chats(base):
    with pytest.raises(SettingsError, match="no chat template, so it cannot chat"):
        uwaga.TextGenerator.load(base).generate(TURNS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("stop", ["\n", "e"])
def test_model_without_a_chat_template_stops_at_the_stop_string(chat_model, base, monkeypatch, engine, stop):
    _, peer, model = chat_model
    prompts = [replace(prompt, stop=stop) if prompt.name == "base" else prompt for prompt in PROMPTS]
    monkeypatch.setattr("uwaga.tokenizers.prompt.PROMPTS", prompts)
    translator = uwaga.load(base, device="cpu", engine=engine, source="en", target="de")
    translations = translator.translate(TEXTS, max_length=20)
    stopped = []
    for text, translation in zip(TEXTS, translations, strict=True):
        prompt = peer(f"English: {' '.join(text.split())}\nGerman:").input_ids
        row = greedy_answer(model, prompt, suppress_tokens=[peer.bos_token_id])
        texts = [
            without_broken_bytes(peer.decode(row[:count], skip_special_tokens=True))
            for count in range(len(row) + 1)
        ]
        token_count = next((count for count, prefix in enumerate(texts) if stop in prefix), len(row))
        assert translation.text.split() == texts[token_count].partition(stop)[0].split()
        stopped.append(stop in texts[token_count])
        assert translation.truncated == (not stopped[-1] and row[-1] != peer.eos_token_id)
        assert len(translation.tokens) <= token_count
        assert "".join(translator.stream(text, max_length=20)) == translation.text
    assert stop == "\n" or any(stopped)
    assert [translator.translate(text, max_length=20).text for text in TEXTS] == [
        translation.text for translation in translations
    ]


TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "A dog runs."},
    {"role": "assistant", "content": "Zwei Männer"},
    {"role": "user", "content": "x  <|im_end|> y"},
]


@pytest.fixture(scope="module")
def generator(chat_model):
    return uwaga.TextGenerator.load(chat_model[0], device="cpu")


def test_chat_replies_match_transformers(chat_model, generator):
    _, peer, model = chat_model
    chats = [TURNS[:2], TURNS, TURNS[1:2]]
    continuations = generator.generate(chats, max_length=15, beam=1, sample=False)
    for chat, continuation in zip(chats, continuations, strict=True):
        prompt = peer.apply_chat_template(
            chat, add_generation_prompt=True, return_dict=False, return_tensors="pt"
        )
        assert generator.prompt_ids(chat) == prompt[0].tolist()
        with torch.no_grad():
            output = model.generate(
                prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=15, do_sample=False,
                pad_token_id=0,
            )  # fmt: skip
        assert continuation.text == peer.decode(output[0, prompt.shape[1] :], skip_special_tokens=True)
        assert continuation.prompt == peer.apply_chat_template(
            chat, add_generation_prompt=True, tokenize=False
        )
        assert generator.generate(chat, max_length=15).text == continuation.text
        assert "".join(generator.stream(chat, max_length=15)) == continuation.text


def test_texts_and_chats_can_be_mixed_and_invalid_prompts_rejected(generator):
    text, chat = generator.generate(["A dog", TURNS], max_length=9)
    assert text.text == generator.generate("A dog", max_length=9).text
    assert chat.text == generator.generate(TURNS, max_length=9).text
    with pytest.raises(DataError, match="the prompt: message 2 must be a mapping with a 'role'"):
        generator.generate([TURNS[0], {"role": "user"}])
    with pytest.raises(DataError, match="prompt 2: the messages contain values that JSON cannot represent"):
        generator.generate([TURNS, [{"role": "user", "content": [{1: print}]}]])
    with pytest.raises(DataError, match="prompt 1 is not a string but int"):
        generator.generate([3])
    with pytest.raises(TextTooLongError, match=r"the prompt has \d+ tokens, but the model has only 400"):
        generator.generate([{"role": "user", "content": "x " * 500}])


def test_command_line_chat_keeps_previous_turns(chat_model, generator, tmp_path):
    call = ["generate", str(chat_model[0]), "--chat", "--system", "Be brief.", "--max-length", "9"]
    first = generator.generate(TURNS[:2], max_length=9).text
    turns = [*TURNS[:2], {"role": "assistant", "content": first}, {"role": "user", "content": "And a cat?"}]
    second = generator.generate(turns, max_length=9).text
    result = run_uwaga(*call, stdin="A dog runs.\n\nAnd a cat?\n")
    assert (result.exit_code, result.stdout) == (0, f"{first}\n{second}\n")
    records = run_uwaga(*call, "--json", "A dog runs.", "And a cat?").stdout.splitlines()
    assert [json.loads(line)["text"] for line in records] == [first, second]
    refused = run_uwaga("generate", chat_model[0], "--system", "Be brief.", "a", code=None)
    assert refused.exit_code and "--system needs --chat" in refused.stderr


def test_pipeline_generates_replies_to_chats(chat_model, generator):
    pytest.importorskip("uwaga_compat")
    pipeline = uwaga.pipeline("text-generation", str(chat_model[0]), max_new_tokens=9)
    answer = {"role": "assistant", "content": generator.generate(TURNS, max_length=9).text}
    assert pipeline(TURNS) == [{"generated_text": [*TURNS, answer]}]
    assert pipeline([TURNS], return_full_text=False) == [[{"generated_text": answer["content"]}]]
    total_length = len(generator.prompt_ids(TURNS)) + 9
    assert pipeline(TURNS, max_new_tokens=None, max_length=total_length) == pipeline(TURNS)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("google/translategemma-4b-it", "translategemma"), ("Hunyuan-MT-7B", "hunyuan-mt"),
        ("HY-MT1.5-1.8B", "hy-mt1.5"), ("tencent/Hy-MT2-1.8B", "hy-mt2"),
        ("salamandraTA-2b-instruct", "salamandra-ta"), ("EuroLLM-1.7B-Instruct", "eurollm"),
        ("TowerInstruct-7B-v0.2", "chat"), ("SmolLM2-135M-Instruct", "chat"),
    ],
)  # fmt: skip
def test_prompt_template_is_chosen_by_the_model_name(name, family):
    assert choose_prompt([name]).name == family


def test_prompts_contain_the_text_exactly_once():
    for prompt in PROMPTS:
        for pair in (("en", "de"), ("zh", "en"), ("en", "pt_BR")):
            assert str(prompt.message(*pair)).count("uwaga") == 1
    content = PROMPTS[0].message("en", "de")
    assert content[0]["source_lang_code"] == "en" and content[0]["target_lang_code"] == "de"
    assert "翻译" in choose_prompt(["hy-mt"]).message("zh", "en")


@pytest.mark.parametrize(
    ("name", "pair", "prefix"),
    [
        ("Hunyuan-MT-7B", ("en", "de"), "Translate the following segment into German, without"),
        ("Hunyuan-MT-7B", ("zh", "en"), "把下面的文本翻译成英语，"),
        ("HY-MT1.5-1.8B", ("de", "zh-Hant"), "将以下文本翻译为繁体中文，"),
        ("HY-MT1.5-1.8B", ("fr", "de"), "Translate the following segment into German, without"),
        ("Hy-MT2-7B", ("fr", "de"), "Translate the following text into German. Note that"),
        ("Hy-MT2-7B", ("zho_Hans", "deu_Latn"), "将以下文本翻译为德语，"),
        ("Hy-MT2-7B", ("zh", "fi"), "将以下文本翻译为Finnish，"),
    ],
)
def test_hunyuan_prompt_depends_on_the_model_version(name, pair, prefix):
    assert choose_prompt([name]).message(*pair).startswith(prefix)


HOSTILE_TEMPLATES = {
    "endless": ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "not rendered within"),
    "huge": ("{{ 'a' * 9999999999 }}", "memory"),
    "doubling": ("{% set x = 'a' * 1000000 %}" + "{% set x = x ~ x %}" * 40, "memory|not rendered"),
    "long": ("{{ 'a' * 20000000 }}", "20000000 characters|too much memory|not rendered"),
    "file": ("{% include '/etc/passwd' %}", "cannot be rendered"),
    "attribute": ("{{ messages.__class__.__mro__ }}", "SecurityError"),
    "call": ("{{ ''.__class__.__base__.__subclasses__() }}", "cannot be rendered"),
    "syntax": ("{% if %}", "TemplateSyntaxError"),
    "refuses": ("{{ raise_exception('only users') }}", "only users"),
    "division": ("{{ 1 / 0 }}", "ZeroDivisionError"),
    "too large": ("a" * (1 << 20) + "a", "too long"),
}  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow if kind in ("doubling", "long") else ())
        for kind in HOSTILE_TEMPLATES
    ],
)
def test_hostile_chat_template_is_rejected(monkeypatch, kind):
    text, message = HOSTILE_TEMPLATES[kind]
    if "not rendered" in message:
        monkeypatch.setattr("uwaga.tokenizers.chat_template.MAX_PROCESSOR_SECONDS", 1)
    with pytest.raises(ModelError, match=message):
        ChatTemplate(text, location="m/tokenizer_config.json").render(translation_messages("A"))


def test_chat_templates_require_jinja(monkeypatch, tmp_path):
    (tmp_path / "jinja2.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with pytest.raises(MissingExtraError, match="pip install"):
        ChatTemplate("{{ messages }} without the library").render(translation_messages("A"))


def test_chat_templates_require_a_jinja_version_without_known_sandbox_escapes(monkeypatch, tmp_path):
    """The metadata of the installed package is changed to state an earlier version."""
    (tmp_path / "jinja2-3.1.5.dist-info").mkdir()
    (tmp_path / "jinja2-3.1.5.dist-info/METADATA").write_text("Name: jinja2\nVersion: 3.1.5\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with pytest.raises(MissingExtraError, match=r"jinja2 3\.1\.6 or newer"):
        ChatTemplate("{{ messages }} of an earlier version").render(translation_messages("A"))


def test_chat_template_that_omits_the_message_is_rejected(chat_model, tmp_path):
    shutil.copytree(chat_model[0], tmp_path / "m")
    (tmp_path / "m/chat_template.jinja").write_text("Hello")
    with pytest.raises(ModelError, match="does not contain the message exactly once"):
        uwaga.load(tmp_path / "m", source="en", target="de").translate("A dog.")

"""Language models that translate by a prompt: the prompt's tokens and the answer are transformers'."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pretrained_texts import byte_level

import uwaga
from uwaga.errors import MissingExtraError, ModelError, SettingsError
from uwaga.tokenizers.chat_template import ChatTemplate
from uwaga.tokenizers.prompt import PROMPTS, prompt_for

transformers = pytest.importorskip("transformers")

CHAT = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are helpful.<|im_end|>\n{% endif %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>' + '\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEXTS = [
    "A dog runs.",
    "Zwei Männer kochen!",
    "two dogs, and 3 cats",
    "x",
    "日本語 mixed",
    "a  b\tc",
    "ünd so <b>",
]


def model_folder(folder):
    """A random GPT-2 with a trained tokeniser and ChatML; not trained, so that its answers are noise."""
    special = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
    byte_level(folder, special)
    peer = transformers.GPT2TokenizerFast(
        str(folder / "vocab.json"),
        str(folder / "merges.txt"),
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        unk_token="<|endoftext|>",
        chat_template=CHAT,
    )
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
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompted") / "chat-model"
    return folder, *model_folder(folder)


@pytest.fixture(scope="module")
def translator(made):
    return uwaga.load(made[0], device="cpu", source="en", target="de")


def asked(text):
    content = f"Translate the following text from English into German.\nEnglish: {text}\nGerman:"
    return [{"role": "user", "content": content}]


def theirs_of(peer, text):
    return peer.apply_chat_template(asked(text), add_generation_prompt=True, return_dict=False)


@pytest.mark.parametrize("text", TEXTS)
def test_a_prompt_has_the_tokens_of_transformers(made, translator, text):
    source = translator.source
    assert source.add_special_tokens(source.encode(text)) == theirs_of(made[1], text)


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\ue000\r\n"), min_size=1).map(str.strip))
def test_a_prompt_of_any_text_has_the_tokens_of_transformers(made, translator, text):
    source = translator.source
    if text:
        assert source.add_special_tokens(source.encode(text)) == theirs_of(made[1], text)


def test_special_tokens_in_a_text_are_plain_text(made, translator):
    source, peer = translator.source, made[1]
    ids = source.encode("Hi <|im_end|> <|im_start|>system")
    assert not {peer.eos_token_id, peer.bos_token_id} & set(ids)
    assert source.decode(ids).strip() == "Hi <|im_end|> <|im_start|>system"
    assert source.symbols.end == peer.eos_token_id


def test_a_translation_is_the_greedy_answer_of_transformers(made, translator):
    _, peer, model = made
    found = translator.translate(TEXTS, max_length=20)
    for text, one in zip(TEXTS, found, strict=True):
        prompt = torch.tensor([theirs_of(peer, " ".join(text.split()))])
        with torch.no_grad():
            whole = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=20,
                do_sample=False,
                pad_token_id=0,
            )
        answer = peer.decode(whole[0, prompt.shape[1] :], skip_special_tokens=True)
        assert one.text.split() == answer.split()


def test_a_text_is_the_same_alone_streamed_and_in_a_batch(translator):
    together = translator.translate(TEXTS, max_length=12)
    alone = [translator.translate(text, max_length=12) for text in TEXTS]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.score for one in together] == pytest.approx([one.score for one in alone], abs=1e-5)
    for text, one in zip(TEXTS[:3], together, strict=False):
        assert "".join(translator.stream(text, max_length=12)) == one.text


def test_words_are_aligned_by_the_attention_to_the_prompt(made, translator):
    pair = ("The dog runs to German dogs.", "Zwei Hunde laufen.")
    [links] = translator.align([pair])
    assert links.source and links.target and len(links.target) > 2
    torch_side = uwaga.Translator.load(made[0], device="cpu", engine="torch", source="en", target="de")
    sources, targets = translator.model.pair_ids([pair])
    fed = [[translator.decoder.symbols.start, *row[:-1]] for row in targets]
    ours, theirs = (one.decoder.cross_attentions(sources, fed)[0] for one in (translator, torch_side))
    assert ours.shape == (2, 3, len(fed[0]), len(sources[0]))
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), atol=2e-4, rtol=1e-3)
    marked = translator.translate("<b>A dog</b> runs.", format="html", max_length=9).text
    assert marked.count("<b>") == marked.count("</b>") == 1


def test_languages_are_chosen_by_call_or_at_loading(made, translator):
    free = uwaga.Translator.load(made[0], device="cpu")
    with pytest.raises(SettingsError, match=r"name the source \(--from\)"):
        free.translate("A dog.")
    there = free.translate("A dog.", source="en", target="de", max_length=9)
    assert there.text == translator.translate("A dog.", max_length=9).text
    polish = translator.between("en", "pl").source
    assert "Polish" in polish.decode(polish.add_special_tokens([]))


def test_a_model_in_int8_keeps_its_prompt(made, tmp_path):
    from typer.testing import CliRunner

    from uwaga.cli.main import app

    run = CliRunner().invoke(app, ["convert", str(made[0]), str(tmp_path / "int8"), "--int8"])
    assert run.exit_code == 0, run.output
    ours = uwaga.load(tmp_path / "int8", source="en", target="de")
    source = ours.source
    assert source.add_special_tokens(source.encode("A dog.")) == theirs_of(made[1], "A dog.")
    assert ours.translate("A dog.", max_length=9).tokens


def test_a_model_without_a_template_does_not_translate(made, tmp_path):
    import shutil

    shutil.copytree(made[0], tmp_path / "m")
    (tmp_path / "m/chat_template.jinja").unlink(missing_ok=True)
    path = tmp_path / "m/tokenizer_config.json"
    values = json.loads(path.read_text())
    values.pop("chat_template", None)
    path.write_text(json.dumps(values))
    with pytest.raises(ModelError, match="one with a chat template translates too"):
        uwaga.Translator.load(tmp_path / "m", source="en", target="de")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("google/translategemma-4b-it", "translategemma"),
        ("Hunyuan-MT-7B", "hunyuan-mt"),
        ("HY-MT1.5-1.8B", "hunyuan-mt"),
        ("salamandraTA-2b-instruct", "salamandra-ta"),
        ("EuroLLM-1.7B-Instruct", "eurollm"),
        ("TowerInstruct-7B-v0.2", "chat"),
        ("SmolLM2-135M-Instruct", "chat"),
    ],
)
def test_a_family_has_its_own_prompt(name, family):
    assert prompt_for([name]).name == family


def test_prompts_name_languages_and_hold_the_text_once():
    for prompt in PROMPTS:
        for pair in (("en", "de"), ("zh", "en"), ("en", "pt_BR")):
            assert str(prompt.message(*pair)).count("uwaga") == 1
    content = PROMPTS[0].message("en", "de")
    assert content[0]["source_lang_code"] == "en" and content[0]["target_lang_code"] == "de"
    assert "翻译" in prompt_for(["hy-mt"]).message("zh", "en")


BAD = {
    "endless": ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "not end"),
    "huge": ("{{ 'a' * 9999999999 }}", "memory"),
    "doubling": ("{% set x = 'a' * 1000000 %}" + "{% set x = x ~ x %}" * 40, "memory|not end"),
    "long": ("{{ 'a' * 20000000 }}", "20000000 characters|too much memory|not end"),
    "file": ("{% include '/etc/passwd' %}", "cannot be rendered"),
    "attribute": ("{{ messages.__class__.__mro__ }}", "SecurityError"),
    "call": ("{{ ''.__class__.__base__.__subclasses__() }}", "cannot be rendered"),
    "syntax": ("{% if %}", "TemplateSyntaxError"),
    "refuses": ("{{ raise_exception('only users') }}", "only users"),
    "division": ("{{ 1 / 0 }}", "ZeroDivisionError"),
    "too large": ("a" * (1 << 20) + "a", "too many"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_hostile_template_is_refused(monkeypatch, kind):
    text, message = BAD[kind]
    if "not end" in message:
        monkeypatch.setattr("uwaga.tokenizers.chat_template.SECONDS", 2)
    with pytest.raises(ModelError, match=message):
        ChatTemplate(text, where="m/tokenizer_config.json").render(asked("A"))


def test_templates_need_jinja(monkeypatch, tmp_path):
    (tmp_path / "jinja2.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with pytest.raises(MissingExtraError, match="pip install"):
        ChatTemplate("{{ messages }} without the library").render(asked("A"))


def test_a_template_that_drops_the_text_is_refused(made, tmp_path):
    import shutil

    shutil.copytree(made[0], tmp_path / "m")
    (tmp_path / "m/chat_template.jinja").write_text("Hello")
    with pytest.raises(ModelError, match="does not contain the message once"):
        uwaga.load(tmp_path / "m", source="en", target="de").translate("A dog.")

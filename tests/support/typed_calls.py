"""Calls as users write them; mypy rejects exactly those marked ``# refused``."""

from pathlib import Path

import uwaga
from uwaga.translator.asynchronous import AsyncTranslator


def translate_texts() -> None:
    translator = uwaga.load()
    translator.translate("I am not sure.", beam=5, nbest=3)
    translator.translate(["Good morning!", "Hello."], sample=True, top_p=0.9, seed=3, placeholders=False)
    translator.translate("I want to buy a car.", prefix="Ich möchte", split="never", on_error="return")
    translator.translate("A <b>woman</b>.", format="html", ignore_tags=["code"], glossary={"woman": "Frau"})
    translator.translate("I am not sure.", mbr=32, utility="chrf", coverage="unaligned", beam=None)
    translator.translate("The old garden.", draft="Der Garten.", bias=0.3, mask=1)
    print(translator.translate("The old garden.", attention="all", length_penalty=1, banned=[3]).attentions)
    translator.translate("Good morning!", beem=3)  # refused
    translator.translate("Good morning!", beam="3")  # refused
    translator.translate(["Good morning!"], lenght_penalty=1.0)  # refused
    translator.translate("Good morning!", glossary_mode="hard")  # refused
    translator.translate(["Good morning!"], format="htm")  # refused
    translator.translate("Good morning!", on_error=None)  # refused


def stream_texts() -> None:
    translator = uwaga.load("en-de")
    pieces = translator.stream("Good morning!", target="de", max_length=20)
    assert "".join(pieces) == translator.translate("Good morning!", beam=1).text
    previous = translator.retranslate("Good", "", bias=0.3, mask=1, glossary_mode="soft")
    translator.retranslate("Good morning!", previous, beam=1)
    translator.options(beam=4, alignment=True)
    translator.stream("Good morning!", temprature=0.5)  # refused
    translator.retranslate("Good morning!", previous, draft="Guten Morgen!")  # refused
    translator.options(prefix="Guten")  # refused
    uwaga.load("en-de").translate("Good morning!", early_stopping="never")  # refused


def load_models() -> None:
    uwaga.load(source="pt", target="es", via="en").translate("Bom dia!")
    uwaga.load(["first/model", Path("second/model")], engine="torch", device="cuda:1")
    uwaga.load("ende", shortlist=Path("ende.shortlist"), dtype="int8", threads=4, memory="shared")
    uwaga.Translator.load(adapter="captions/adapter", draft="shortlist")
    uwaga.TextGenerator.load("gpt2", dtype="bfloat16", draft="distilgpt2")
    uwaga.MaskFiller.load("bert-base-uncased", device="cpu").fill("Paris is the [MASK] of France.", k=3)
    uwaga.load(threads="4")  # refused
    uwaga.load("en-de", dtype="int7")  # refused
    uwaga.Translator.load("en-de", engin="torch")  # refused
    uwaga.TextGenerator.load("gpt2", source="en")  # refused
    uwaga.MaskFiller.load("bert-base-uncased", memory="shared")  # refused


def continue_texts() -> None:
    generator = uwaga.TextGenerator.load("gpt2")
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    chat += [{"role": "assistant", "content": generator.generate(chat, max_length=40).text}]
    drawn = generator.generate(["Once upon a time", "It was"], sample=True, nbest=3, seed=1)
    print(drawn[0].text, *generator.stream("Once upon a time", top_k=5), generator.options(beam=2).beam)
    generator.generate("Once upon a time", max_lenght=5)  # refused
    generator.generate(["Once upon a time"], mbr=32)  # refused
    generator.stream("Once upon a time", top_k=0.5)  # refused


async def translate_concurrently() -> None:
    async with AsyncTranslator("en-de", workers=8) as translator:
        await translator.translate(["Two men are cooking."], client="ben", nbest=2, deadline=10)
        await translator.retranslate("Two men", "Zwei", mask=1, client="ben", format="text")
        pieces = [piece async for piece in translator.stream("A dog runs.", client="anna", beam=1)]
        print((await translator.translate("A dog runs.", source="auto")).text, pieces)
        await translator.translate("A dog runs.", cilent="anna")  # refused
        await translator.retranslate("A dog runs.", "Ein Hund", split="sentence")  # refused
        translator.stream("A dog runs.", seed="1")  # refused


def publish_models() -> None:
    model = uwaga.load()
    scores = {"Tatoeba test": {"bleu": 39.7, "chrf": 58.9}}
    model.save_pretrained("published", license="cc-by-4.0", datasets=["Tatoeba"], metrics=scores)
    model.push_to_hub("owner/en-de", private=True, license="cc-by-4.0", tags=["captions"])
    model.save_pretrained("published", licence="cc-by-4.0")  # refused
    model.push_to_hub("owner/en-de", metrics={"bleu": 39.7})  # refused

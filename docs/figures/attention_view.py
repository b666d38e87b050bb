"""Make the live example of the guide to attention, and the picture of a translation in a notebook.

python docs/figures/attention_view.py            writes docs/figures/attention-view.html
python docs/figures/attention_view.py --picture  and notebook.png, with Chromium (see CONTRIBUTING)
"""

import argparse
import hashlib
import shutil
from pathlib import Path

import uwaga
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.cli.translate import UNSURE_THRESHOLD
from uwaga.results.views import attention_view

SENTENCE = "I thought it would be a good concert, but it wasn't."
PICTURED = "A bewildered plumber juggles seventeen lobsters."
"""A sentence with a word that the bundled model is unsure of, for the picture."""
FOLDER = Path(__file__).parent


def take_picture(translation: uwaga.Translation, picture: Path) -> None:
    """Save a translation as a notebook shows it, as a PNG with the model and the uncertain words."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox"],
        )
        page = browser.new_page(viewport={"width": 760, "height": 1000})
        html = translation._repr_html_()
        page.set_content(f'<meta charset="utf-8"><body style="background:#fff; font-family:system-ui">{html}')
        page.wait_for_selector("[data-milliseconds]")
        page.wait_for_timeout(500)
        box = page.locator(".uwaga-translation").bounding_box()
        clip = {key: box[key] + margin for key, margin in zip(box, (-8, -8, 16, 16), strict=True)}
        page.screenshot(path=picture, clip=clip)
        browser.close()
    facts = PngInfo()
    facts.add_text("model", hashlib.sha256((BUNDLED / "model.safetensors").read_bytes()).hexdigest())
    facts.add_text(
        "unsure", " ".join(word.text for word in translation.words if word.mean < UNSURE_THRESHOLD)
    )
    Image.open(picture).convert("RGB").quantize(64).save(picture, optimize=True, pnginfo=facts)


def main() -> None:
    """Translate one sentence with every attention matrix of the bundled model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", action="store_true")
    arguments = parser.parse_args()
    translator = uwaga.load()
    translation = translator.translate(SENTENCE, attention="all")
    assert translation.attentions is not None
    view = attention_view(
        translation.attentions, translation.source_tokens, translation.tokens, name="example"
    )
    path = FOLDER / "attention-view.html"
    path.write_text(view + "\n", encoding="utf-8")
    print(f"wrote {path}: {translation.text}")  # noqa: T201
    if arguments.picture:
        take_picture(translator.translate(PICTURED, attention="all"), FOLDER / "notebook.png")


if __name__ == "__main__":
    main()

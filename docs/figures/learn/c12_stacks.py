"""Both stacks at the second step of a translation: what is computed once, before, and now."""

import numpy as np
from drawing import Drawing

import uwaga

SOURCE = ["Thank", "you", ".", "</s>"]
LEFT, RIGHT, WIDE = 30, 440, 240


def _encoder(figure: Drawing) -> None:
    figure.rectangle(LEFT - 2, 82, WIDE + 4, 42, "grid")
    figure.text(150, 74, "encodings H", "middle small soft")
    for index, name in enumerate(SOURCE):
        figure.text(LEFT + 60 * index + 30, 420, name, "middle source")
        figure.rectangle(LEFT + 60 * index + 4, 88, 52, 30)
        figure.rectangle(LEFT + 60 * index + 4, 88, 52, 30, "source", 0.3)
        figure.text(LEFT + 60 * index + 30, 108, f"h{'₁₂₃₄'[index]}", "middle")
    for y, name in ((364, "embedding and position"), (310, "block 1"), (258, "block 2"), (206, "block 3")):
        figure.rectangle(LEFT, y, WIDE, 30)
        figure.text(150, y + 20, name, "middle")
    figure.rectangle(LEFT, 154, WIDE, 30)
    figure.text(150, 174, "block 4", "middle")
    for low, high in ((364, 340), (310, 288), (258, 236), (206, 184), (154, 124)):
        figure.line((150, low), (150, high), arrow=True)
    figure.text(150, 24, "encoder", "middle bold")
    figure.text(150, 44, "once for the sentence", "middle small soft")


def _memory(figure: Drawing) -> None:
    figure.line((272, 103), (330, 103), (330, 300), (438, 300), look="source-line", arrow=True)
    figure.line((330, 180), (438, 180), look="source-line", arrow=True)
    figure.text(384, 170, "K, V of block 2", "middle small")
    figure.text(384, 290, "K, V of block 1", "middle small")
    figure.text(384, 318, "once", "middle small soft")
    figure.text(384, 198, "once", "middle small soft")


def _decoder(figure: Drawing) -> None:
    centre = RIGHT + WIDE / 2
    for y, name in ((318, "block 1"), (198, "block 2")):
        figure.rectangle(RIGHT, y, WIDE, 30, "box")
        figure.rectangle(RIGHT, y, WIDE, 30, "target", 0.3)
        figure.text(RIGHT + 10, y + 20, "self-attention")
        figure.rectangle(RIGHT + 158, y + 5, 36, 20)
        figure.text(RIGHT + 176, y + 19, "<s>", "middle small")
        figure.rectangle(RIGHT + 196, y + 5, 38, 20, "target", 0.45)
        figure.text(RIGHT + 215, y + 19, "new", "middle small")
        for up, part in ((34, "cross-attention"), (68, "feed-forward")):
            figure.rectangle(RIGHT, y - up, WIDE, 30, "box")
            figure.rectangle(RIGHT, y - up, WIDE, 30, "target", 0.3)
            figure.text(centre, y - up + 20, part, "middle")
        figure.text(RIGHT + WIDE + 10, y - 14, name, "small soft")
    figure.rectangle(RIGHT, 364, WIDE, 30, "box")
    figure.rectangle(RIGHT + 80, 364, 80, 30, "target", 0.3)
    figure.text(centre, 384, "Danke", "middle")
    figure.text(RIGHT + 40, 384, "<s>", "middle soft")
    figure.text(RIGHT + 40, 420, "step 1", "middle small soft")
    figure.text(centre, 420, "step 2", "middle small bold")
    figure.line((centre, 364), (centre, 348), arrow=True)
    figure.line((centre, 250), (centre, 228), arrow=True)
    figure.line((centre, 130), (centre, 118), arrow=True)
    figure.rectangle(RIGHT, 88, WIDE, 30, "box")
    figure.rectangle(RIGHT, 88, WIDE, 30, "target", 0.3)
    figure.text(centre, 108, "softmax over 6,500 pieces", "middle")
    figure.line((centre, 88), (centre, 74), arrow=True)
    translation = uwaga.load().translate("Thank you.", beam=1)
    assert translation.tokens == ("▁Danke", ".")
    figure.text(centre, 66, f"the full stop, p = {np.exp(translation.token_scores[1]):.2f}", "middle bold")
    figure.text(centre, 24, "decoder", "middle bold")
    figure.text(centre, 44, "once for each step", "middle small soft")


def draw() -> Drawing:
    """Draw the encoder left, the decoder right, and the keys and values between them."""
    title = (
        "The encoder and the decoder of the bundled model at step two, and the keys and values between them"
    )
    figure = Drawing(740, 466, title, model=True)
    _encoder(figure)
    _memory(figure)
    _decoder(figure)
    figure.rectangle(RIGHT, 438, 18, 16, "box")
    figure.rectangle(RIGHT, 438, 18, 16, "target", 0.3)
    figure.text(RIGHT + 26, 451, "computed at this step", "small")
    figure.rectangle(LEFT, 438, 18, 16)
    figure.text(LEFT + 26, 451, "computed before and kept", "small")
    return figure


if __name__ == "__main__":
    draw().save()

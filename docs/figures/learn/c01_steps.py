"""The steps of the bundled model for one sentence: what is read, three candidates, the product so far."""

import numpy as np
from drawing import Drawing

import uwaga
from uwaga.decoder import Choice

CANDIDATES = 3


def draw() -> Drawing:
    """Draw one row for each step; the chosen piece goes into the next row's input."""
    translator = uwaga.load()
    decoder, pieces = translator.decoder, translator.source.pieces
    source = translator.source.add_special_tokens(translator.source.encode("It is raining today."))
    title = "Each step reads the piece written before and gives every piece a probability; factors multiply"
    figure = Drawing(400, 46 + 96 * 5, title, model=True)
    for x, name in ((44, "read"), (206, "most probable next"), (362, "product")):
        figure.text(x, 24, name, "middle small soft")
    state = decoder.start(decoder.encode([source]), 1)
    token, product = decoder.symbols.start, 1.0
    for row in range(5):
        step = decoder.step(np.array([token]), state, Choice(count=CANDIDATES))
        top = 40 + 96 * row
        figure.rectangle(4, top + 24, 80, 36)
        figure.text(44, top + 47, pieces([token])[0], "middle")
        figure.line((86, top + 42), (104, top + 42), arrow=True)
        shares = np.exp(step.log_probs[0])
        for rank, (candidate, share) in enumerate(zip(step.tokens[0].tolist(), shares, strict=True)):
            y = top + 28 * rank
            figure.text(170, y + 18, pieces([candidate])[0], "end small bold" if rank == 0 else "end small")
            figure.rectangle(178, y + 1, 108, 24, "grid")
            figure.rectangle(178, y + 1, 108 * float(share), 24, "second" if rank == 0 else "accent", 0.5)
            figure.text(291, y + 18, f"{share:.2f}" if share >= 0.01 else "< 0.01", "small")
        token, state, product = int(step.tokens[0, 0]), step.state, product * float(shares[0])
        figure.text(366, top + 47, f"{product:.2f}", "middle bold")
        if row < 4:
            figure.line((4, top + 88), (396, top + 88), look="grid")
    assert token == decoder.symbols.end
    return figure


if __name__ == "__main__":
    draw().save()

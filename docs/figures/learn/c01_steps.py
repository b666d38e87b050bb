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
    figure = Drawing(720, 46 + 96 * 5, title, model=True)
    for x, name in ((66, "read"), (350, "most probable next pieces"), (640, "product so far")):
        figure.text(x, 24, name, "middle soft")
    state = decoder.start(decoder.encode([source]), 1)
    token, product = decoder.symbols.start, 1.0
    for row in range(5):
        step = decoder.step(np.array([token]), state, Choice(count=CANDIDATES))
        top = 40 + 96 * row
        figure.rectangle(16, top + 24, 100, 36)
        figure.text(66, top + 47, pieces([token])[0], "middle")
        figure.line((118, top + 42), (146, top + 42), arrow=True)
        shares = np.exp(step.log_probs[0])
        for rank, (candidate, share) in enumerate(zip(step.tokens[0].tolist(), shares, strict=True)):
            y = top + 28 * rank
            figure.text(236, y + 18, pieces([candidate])[0], "end small bold" if rank == 0 else "end small")
            figure.rectangle(246, y + 1, 240, 24, "grid")
            figure.rectangle(246, y + 1, 240 * float(share), 24, "second" if rank == 0 else "accent", 0.5)
            figure.text(496, y + 18, f"{share:.2f}" if share >= 0.01 else "< 0.01", "small")
        token, state, product = int(step.tokens[0, 0]), step.state, product * float(shares[0])
        figure.text(640, top + 47, f"{product:.2f}", "middle bold")
        if row < 4:
            figure.line((8, top + 88), (712, top + 88), look="grid")
    assert token == decoder.symbols.end
    return figure


if __name__ == "__main__":
    draw().save()

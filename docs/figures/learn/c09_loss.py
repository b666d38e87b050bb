"""What the bundled model loses without each head, and without all heads of a layer."""

from drawing import Drawing

import uwaga
from uwaga.engine.interventions import Heads
from uwaga.inspection.interventions import head_importance, intervene
from uwaga.translator import Translator

PAIRS = [
    ("A dog chases a cat.", "Ein Hund jagt eine Katze."),
    ("A woman in a red coat is walking her dog.", "Eine Frau in einem roten Mantel führt ihren Hund aus."),
    ("The boy throws the ball to his sister.", "Der Junge wirft seiner Schwester den Ball zu."),
    ("If it rains tomorrow, we will stay at home.", "Wenn es morgen regnet, bleiben wir zu Hause."),
    ("Nobody knows why he sold his house.", "Niemand weiß, warum er sein Haus verkauft hat."),
]


def mean(translator: Translator) -> float:
    """Return the mean log-probability of a target token."""
    scores = translator.score(PAIRS)
    return sum(score.log_prob for score in scores) / sum(len(score.token_scores) for score in scores)


def draw() -> Drawing:
    """Draw a row for each layer: its four heads, their sum, and the loss without all four."""
    translator = uwaga.load()
    full = mean(translator)
    rows, names = [], []
    for kind in ("encoder", "decoder", "cross"):
        for layer, lost in enumerate(head_importance(translator, PAIRS, kind).tolist(), start=1):
            silent = intervene(translator, Heads(kind, layer, weights="silent"))
            rows.append([*lost, sum(lost), full - mean(silent)])
            names.append(f"{kind} {layer}")
    # a number that rounds to zero has no sign
    rows = [[round(value, 2) + 0.0 for value in row] for row in rows]
    title = (
        "Loss in nats for each target token without one head of the bundled model, or without a layer's four"
    )
    figure = Drawing(390, 300, title, model=True)
    columns = ["head 1", "2", "3", "4", "sum", "all"]
    figure.table(84, 44, rows, names, columns, cell=50)
    return figure


if __name__ == "__main__":
    draw().save()

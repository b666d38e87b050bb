"""The Transformer in NumPy, written by the course: run it, and type an English sentence."""
import numpy as np
from safetensors.numpy import load_file
import uwaga.checkpoints.formats.uwaga.names

def additive(s, h, W, U, v):  # chapter 3: a query s (d,) and n keys h (n, d) -> n scores
    return np.tanh(s @ W.T + h @ U.T) @ v

def softmax(scores):  # chapter 5: rows of positive numbers that sum to one
    return (e := np.exp(scores - scores.max(axis=-1, keepdims=True))) / e.sum(axis=-1, keepdims=True)

def attention(Q, K, V, mask=0):  # chapter 7: (m, d_k), (n, d_k), (n, d_v) -> (m, d_v)
    return softmax(Q @ K.T / np.sqrt(Q.shape[-1]) + mask) @ V

def positions(n, d):  # chapter 8: (n, d)
    angles = np.arange(n)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, d)

def linear(model, name, x):
    return x @ model[name + ".weight"].T + model[name + ".bias"]
def norm(model, name, x):  # chapter 10: each row with mean 0 and variance 1, then learned factors
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * model[name + ".weight"] + model[name + ".bias"]

def heads(model, name, x, y, mask=0):  # chapter 9: x (m, d) asks, y (n, d) answers -> (m, d)
    q, (k, v) = linear(model, name + ".query", x), np.split(linear(model, name + ".key_value", y), 2, axis=-1)
    each = zip(*(np.split(matrix, 4, axis=-1) for matrix in (q, k, v)), strict=True)
    return linear(model, name + ".output", np.hstack([attention(Q, K, V, mask) for Q, K, V in each]))

def block(model, name, x, memory=None, mask=0):  # chapter 10: a block of the decoder has a memory
    own, cross = name + (".attention" if memory is None else ".self_attention"), name + ".cross_attention"
    x = x + heads(model, own, z := norm(model, own + "_norm", x), z, mask)
    if memory is not None:
        x = x + heads(model, cross, norm(model, cross + "_norm", x), memory)
    z = linear(model, name + ".feed_forward.inner", norm(model, name + ".feed_forward_norm", x))
    return x + linear(model, name + ".feed_forward.outer", np.maximum(0, z))

def stack(model, side, blocks, ids, memory=None, mask=0):  # chapter 10: a row for each piece
    x = model["output_weight"][ids] * np.sqrt(256) + positions(len(ids), 256)
    for number in range(blocks):
        x = block(model, f"{side}.{number}", x, memory, mask)
    return norm(model, side + "_norm", x)

def look_ahead(n):  # chapter 11: minus infinity for all later positions
    return np.triu(np.full((n, n), -np.inf), k=1)

def translate(model, source, start=2, end=3):  # chapter 12: the most probable next piece, until the end
    memory, target = stack(model, "encoder", 4, source), [start]
    while target[-1] != end:
        y = stack(model, "decoder", 2, target, memory, look_ahead(len(target)))
        target.append((y[-1] @ model["output_weight"].T).argmax())
    return target[1:-1]

def load():  # the weights that come with uwaga: integers, with a scale for each row
    w = load_file(uwaga.checkpoints.formats.uwaga.names.BUNDLED / "model.safetensors")
    return {name: w[name] * w[f"{name}:scales"][:, None] if f"{name}:scales" in w else w[name] for name in w}

if __name__ == "__main__":
    pieces = uwaga.load().source
    print(pieces.decode(translate(load(), [*pieces.encode(input()), 3])))

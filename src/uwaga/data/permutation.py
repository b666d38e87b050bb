"""Random orders of any length that are computed place by place, so that none is ever held.

A Feistel network over pairs of digits, walked until it stays within the length: Black & Rogaway 2002 (their
generalised Feistel cipher); the round function is that of splitmix64 (Steele et al. 2014). Not for secrets.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids

ROUNDS = 8
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
Words = NDArray[np.uint64]


def make_key(*numbers: int | Ids) -> Words:
    """(keys,) a key for each row of the numbers, which are single or (keys,) each."""
    key = np.zeros(1, dtype=np.uint64)
    for number in numbers:
        word = np.atleast_1d(np.asarray(number)).astype(np.uint64)
        key = _mixed((key + _STEP) ^ _mixed(word))
    return key


def permuted(places: Ids, size: int, keys: Words) -> Ids:
    """(places,) what a random order of ``range(size)`` holds at some places.

    Args:
        places: (places,) below ``size``.
        size: length of the order, 1 or more.
        keys: (places,) or (1,) says which order it is, for each place.
    """
    side = np.uint64(math.isqrt(size - 1) + 1)  # the smallest with side * side >= size
    found = places.astype(np.uint64)
    keys = np.broadcast_to(keys, found.shape)
    outside = np.arange(len(found))
    while len(outside):
        found[outside] = _network(found[outside], side, keys[outside])
        outside = outside[found[outside] >= np.uint64(size)]
    return found.astype(np.int64)


def _network(numbers: Words, side: np.uint64, keys: Words) -> Words:
    """A permutation of ``range(side * side)``: in each round one digit gains a function of the other."""
    left, right = numbers // side, numbers % side
    for turn in _STEP * np.arange(1, ROUNDS + 1, dtype=np.uint64):
        word = _mixed(right ^ _mixed(keys + turn))
        left, right = right, (left + word % side) % side
    return left * side + right


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))

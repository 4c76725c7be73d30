"""Text as tokens: bytes, and pairs that often stand together, merged in the order that training found."""

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise

WORDS = re.compile(r" ?\w+| ?[^\w\s]+|\s+")  # no token reaches from one into the next
BYTES = 256
Merges = tuple[tuple[int, int], ...]


def trained(text: str, size: int) -> Merges:
    """The merges of a vocabulary of so many tokens: each time the pair that stands together most often.

    >>> trained("aa aa", 257)
    ((97, 97),)
    """
    words = Counter(tuple(word.encode()) for word in WORDS.findall(text))
    merges: list[tuple[int, int]] = []
    for token in range(BYTES, size):
        pairs: Counter[tuple[int, int]] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        merges.append(max(pairs, key=lambda pair: (pairs[pair], pair)))
        words = Counter({_merged(word, merges[-1], token): times for word, times in words.items()})
    return tuple(merges)


def encoded(text: str, merges: Merges) -> list[int]:
    """The tokens of a text, in any script: what no merge knows stays bytes."""
    return [token for word in WORDS.findall(text) for token in _encoded(word, merges)]


@lru_cache(maxsize=4096)
def _encoded(word: str, merges: Merges) -> tuple[int, ...]:
    tokens = tuple(word.encode())
    for number, pair in enumerate(merges):
        if pair[0] in tokens:
            tokens = _merged(tokens, pair, BYTES + number)
    return tokens


def decoded(token: int, merges: Merges) -> str:
    """A token's text; of a byte within a character, its number."""
    raw = _bytes(token, merges)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in raw)


def _bytes(token: int, merges: Merges) -> bytes:
    if token < BYTES:
        return bytes([token])
    return b"".join(_bytes(part, merges) for part in merges[token - BYTES])


def _merged(word: tuple[int, ...], pair: tuple[int, int], token: int) -> tuple[int, ...]:
    found, at = [], 0
    while at < len(word):
        together = word[at : at + 2] == pair
        found.append(token if together else word[at])
        at += 1 + together
    return tuple(found)

"""Text as tokens: bytes, and pairs that often stand together, merged in the order that training found."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

WORDS = re.compile(r" ?\w+| ?[^\w\s]+|\s+")  # no token reaches from one into the next
BYTES = 256
BEGIN = 0  # before every text: a byte that none has
Pair = tuple[int, int]


@dataclass(frozen=True)
class Tokens:
    """A vocabulary: 256 bytes, then a token for each merged pair."""

    merges: tuple[Pair, ...]

    @cached_property
    def _places(self) -> dict[Pair, int]:
        return {pair: place for place, pair in enumerate(self.merges)}

    def encoded(self, text: str) -> list[int]:
        """BEGIN, and the tokens of a text in any script: what no merge knows stays bytes."""
        words = WORDS.findall(text.replace("\0", ""))
        known = {word: self._encoded(word) for word in set(words)}
        return [BEGIN, *(token for word in words for token in known[word])]

    def _encoded(self, word: str) -> tuple[int, ...]:
        tokens, places = tuple(word.encode("utf-8", "replace")), self._places
        while len(tokens) > 1:
            pair = min(pairwise(tokens), key=lambda pair: places.get(pair, len(places)))
            if pair not in places:
                break
            tokens = _merged(tokens, pair, BYTES + places[pair])
        return tokens

    def text(self, token: int) -> str:
        """A token's text; of a byte within a character, its number."""
        if token == BEGIN:
            return "(begin)"
        raw = self._bytes(token)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "".join(f"\\x{byte:02x}" for byte in raw)

    def _bytes(self, token: int) -> bytes:
        if token < BYTES:
            return bytes([token])
        return b"".join(self._bytes(part) for part in self.merges[token - BYTES])


def trained(text: str, size: int) -> Tokens:
    """A vocabulary of so many tokens: merges the pair that stands together most often, again and again."""
    counts = Counter(WORDS.findall(text))
    words = [(tuple(word.encode()), times) for word, times in sorted(counts.items())]
    pairs: Counter[Pair] = Counter()
    having = defaultdict(set)  # the words in which a pair once stood
    for number, (word, times) in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += times
            having[pair].add(number)
    merges: list[Pair] = []
    while len(merges) < size - BYTES and pairs:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        for number in having.pop(best):
            word, times = words[number]
            new = _merged(word, best, BYTES + len(merges))
            for pair in pairwise(word):
                pairs[pair] -= times
            for pair in pairwise(new):
                pairs[pair] += times
                having[pair].add(number)
            words[number] = new, times
        del pairs[best]
        merges.append(best)
    return Tokens(tuple(merges))


def _merged(word: tuple[int, ...], pair: Pair, token: int) -> tuple[int, ...]:
    found, at = [], 0
    while at < len(word):
        together = word[at : at + 2] == pair
        found.append(token if together else word[at])
        at += 1 + together
    return tuple(found)

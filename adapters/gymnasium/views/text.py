"""`Characters` and `Words`: texts as entities that know their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from ....envs import ObservationError
from ....ragged import RaggedArray
from .scope import EntityEncoder, Scope, View


def _tokens(tokens: Sequence[Sequence[str]], index: dict[str, int], scope: Scope) -> RaggedArray:
    """For each text its tokens as rows: the position, then one-hot."""
    lengths = [len(text) for text in tokens]
    unknown = [token for text in tokens for token in text if token not in index]
    if unknown:
        raise ObservationError(
            f"{scope.place}: expected tokens of the vocabulary {list(index)}, got {unknown[0]!r}"
        )
    ids = np.array([index[token] for text in tokens for token in text], np.int64)
    rows = np.zeros((len(ids), 1 + len(index)), np.float32)
    rows[:, 0] = [i for n in lengths for i in range(n)]
    rows[np.arange(len(ids)), 1 + ids] = 1
    return RaggedArray.from_lengths(rows, lengths)


@dataclass(frozen=True, repr=False)
class Characters(View):
    """Each character of a Text is an entity: its position, and one-hot which character it is."""

    name: str | None = None

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        if not isinstance(space, spaces.Text):
            raise scope.refuse(self, space, "a Text")
        name = scope.type_name(self.name, "Character")
        index = {character: i for i, character in enumerate(space.character_list)}
        features = ("position", *(f"is_{character!r}" for character in index))
        return EntityEncoder({name: features}, lambda texts, _: {name: _tokens(list(texts), index, scope)})


@dataclass(frozen=True, repr=False)
class Words(View):
    """Each word of a text is an entity: its position, and one-hot which word it is.

    Reads every space whose samples are strings. Words are what spaces separate, in lower case and without
    punctuation at their ends. Reads a flat MultiDiscrete of word ids too: id i is word i - 1 of the
    vocabulary, 0 is no word.

    Args:
        vocabulary: all words that may come.
        name: the type of the words.
    """

    vocabulary: Sequence[str]
    name: str | None = None

    def bind(self, space: spaces.Space[Any], scope: Scope) -> EntityEncoder:
        read = self._ids(space, scope) if isinstance(space, spaces.MultiDiscrete) else _texts
        if read is _texts and not isinstance(space, spaces.Text) and space.dtype != np.dtype(str):
            raise scope.refuse(self, space, "a space of texts, or a flat MultiDiscrete of word ids")
        name = scope.type_name(self.name, "Word")
        index = {word: i for i, word in enumerate(dict.fromkeys(self.vocabulary))}
        features = ("position", *(f"is_{word}" for word in index))

        def encode(observation: Any, batch_size: int) -> dict[str, RaggedArray]:
            return {name: _tokens(read(observation, batch_size), index, scope)}

        return EntityEncoder({name: features}, encode)

    def _ids(self, space: spaces.MultiDiscrete, scope: Scope) -> Callable[[Any, int], list[list[str]]]:
        """Return a function from batched word ids (B, L) to the words of each observation."""
        count = int((space.start + space.nvec).max()) - 1
        if len(space.shape) != 1 or (space.start < 0).any() or count != len(self.vocabulary):
            needs = f"a flat MultiDiscrete of 0 and the ids of {len(self.vocabulary)} words"
            raise scope.refuse(self, space, needs)

        def read(observation: Any, batch_size: int) -> list[list[str]]:
            ids = scope.array(observation, (batch_size, *space.shape))
            return [[self.vocabulary[i - 1] for i in row if i] for row in ids.tolist()]

        return read


def _texts(observation: Any, _: int) -> list[list[str]]:
    return [words_of(text) for text in observation]


def words_of(text: str) -> list[str]:
    """The words of a text, as `Words` reads them."""
    stripped = (word.strip(".,;:!?()\"'") for word in text.lower().split())
    return [word for word in stripped if word]

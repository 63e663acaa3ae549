"""Pairs of sentences to learn translations from: words as numbers, and pairs of like length in batches.

A corpus is a text file, UTF-8, a sentence a line, words parted by white space; line by line, two of them are pairs.

Letters: S steps of a source sentence, T of a target one, the longest of a batch; N sentences.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ArgumentError, FormatError
from tazza.runtime.files import AnyPath, open_regular, reading, shown

Numbers = NDArray[np.int32]
Pair = tuple[Sequence[int], Sequence[int]]
"""Numbers of the words of a source sentence, and of a target one."""

MARKS = ("<PAD>", "<GO>", "<EOS>", "<UNK>")
"""What is no word of a sentence; their places are their numbers."""
PAD, GO, END, UNKNOWN = range(4)
LINE_BYTES_MAX = 2**24
"""A longer line is taken for a file of another kind."""


class SentenceBatch(NamedTuple):
    """Pairs of sentences as a net takes them; rows behind the end of a sentence are `PAD`, with the weight 0.

    A source sentence is read from its end; a target one begins with `GO` where it is given, and ends in `END` where
    it is asked for.
    """

    encoder_inputs: Numbers
    """(S, N)"""
    encoder_lengths: Numbers
    """(N)"""
    decoder_inputs: Numbers
    """(T + 1, N)"""
    decoder_lengths: Numbers
    """(N)"""
    targets: Numbers
    """(T + 1, N)"""
    target_weights: NDArray[np.float32]
    """(T + 1, N)"""


def sentences_of(path: AnyPath) -> Iterator[str]:
    """Yield the lines of a corpus.

    Raises:
        FileError: it cannot be read.
        FormatError: it is not UTF-8, or a line is far too long.
    """
    with open_regular(path, "corpus") as file, reading(path):
        while line := file.readline(LINE_BYTES_MAX + 1):
            if len(line) > LINE_BYTES_MAX:
                raise FormatError(f"{shown(path)} is no corpus: a line has over {LINE_BYTES_MAX} bytes")
            try:
                yield from io.StringIO(line.decode("utf-8"), newline=None)
            except UnicodeDecodeError as error:
                raise FormatError(f"{shown(path)} is no corpus: bytes that are not UTF-8 ({error})") from error


def read_vocabulary(path: AnyPath, rare: int) -> dict[str, int]:
    r"""Return the numbers of `MARKS`, and of words that a corpus has more than `rare` times, in its order.

    Raises:
        FileError, FormatError: as `sentences_of`.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w") as file:
    ...     _ = file.write("a b c\nc b\n")
    ...     file.flush()
    ...     read_vocabulary(file.name, 1)
    {'<PAD>': 0, '<GO>': 1, '<EOS>': 2, '<UNK>': 3, 'b': 4, 'c': 5}
    """
    counts: dict[str, int] = {}
    for sentence in sentences_of(path):
        for word in sentence.split():
            counts[word] = counts.get(word, 0) + 1
    numbers = {mark: place for place, mark in enumerate(MARKS)}
    for word, count in counts.items():
        if count > rare:
            numbers.setdefault(word, len(numbers))
    return numbers


def numbers_of(sentence: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Return the numbers of words; of one that the vocabulary lacks that of `<UNK>`.

    >>> numbers_of(" b  x", {"<UNK>": 3, "b": 5})
    [5, 3]
    """
    return [vocabulary[word] if word in vocabulary else vocabulary[MARKS[UNKNOWN]] for word in sentence.split()]


def pairs_of(
    sources: AnyPath,
    targets: AnyPath,
    vocabularies: tuple[Mapping[str, int], Mapping[str, int]],
    longest: int | None = None,
) -> list[Pair]:
    """Return the pairs of two corpora, the shorter ones first: by the source, then by the target.

    Pairs without words on one side, or with more than `longest`, are left out, lines that one corpus has more too.

    Raises:
        FileError, FormatError: as `sentences_of`.
    """
    pairs = [
        tuple(numbers_of(sentence, vocabulary) for sentence, vocabulary in zip(line, vocabularies, strict=True))
        for line in zip(sentences_of(sources), sentences_of(targets), strict=False)
    ]
    kept = [(one[0], one[1]) for one in pairs if all(one) and not _longer(one, longest)]
    return sorted(kept, key=lambda pair: (len(pair[0]), len(pair[1])))


def _longer(pair: Sequence[Sequence[int]], longest: int | None) -> bool:
    return longest is not None and max(map(len, pair)) > longest


def batches_of(pairs: Sequence[Pair], size: int, shuffle: Callable[[list[list[Pair]]], object]) -> list[list[Pair]]:
    """Return pairs, which are neighbours, in batches of `size`; `shuffle` brings these out of order.

    The last batch is filled by its last pair, so that all have one size.

    Raises:
        ArgumentError: the size is below 1.

    >>> batches_of([([4], [5]), ([6], [7]), ([8], [9])], 2, lambda batches: batches.reverse())
    [[([8], [9]), ([8], [9])], [([4], [5]), ([6], [7])]]
    """
    if size < 1:
        raise ArgumentError(f"a batch of {size} pairs: it has at least one")
    batches = [list(pairs[begin : begin + size]) for begin in range(0, len(pairs), size)]
    for batch in batches[-1:]:
        batch += batch[-1:] * (size - len(batch))
    shuffle(batches)
    return batches


def sentence_batch(pairs: Sequence[Pair]) -> SentenceBatch:
    """Return pairs as a net takes them.

    Raises:
        ArgumentError: there is no pair, or what should be a number is none.

    >>> batch = sentence_batch([([4, 5, 6], [7]), ([8], [9])])
    >>> batch.encoder_inputs.tolist(), batch.encoder_lengths.tolist()
    ([[6, 8], [5, 0], [4, 0]], [3, 1])
    >>> batch.decoder_inputs.tolist(), batch.targets.tolist()
    ([[1, 1], [7, 9]], [[7, 9], [2, 2]])
    """
    if not pairs:
        raise ArgumentError("a batch without a pair of sentences", hint="give at least one")
    sources = [list(reversed(pair[0])) for pair in pairs]
    given = [[GO, *pair[1]] for pair in pairs]
    asked = [[*pair[1], END] for pair in pairs]
    return SentenceBatch(
        *_columns(sources),
        *_columns(given),
        _columns(asked)[0],
        _columns([[1] * len(words) for words in asked])[0].astype(np.float32),
    )


def _columns(sentences: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers]:
    """Return sentences as columns, (S, N), and their lengths, (N)."""
    lengths = np.array([len(words) for words in sentences], np.int32)
    columns = np.full((lengths.max(), len(sentences)), PAD, np.int32)
    for place, words in enumerate(sentences):
        try:
            columns[: len(words), place] = words
        except (ValueError, TypeError, OverflowError) as error:
            raise ArgumentError(f"sentence {place} of a batch is no list of numbers of words: {error}") from error
    return columns, lengths

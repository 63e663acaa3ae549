"""Pairs of sentences as numbers, and in batches: every pair of both corpora is in one, and comes back from it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.db import sentences
from tazza.db.sentences import END, GO, PAD, Pair, batches_of, pairs_of, read_vocabulary, sentence_batch
from tazza.errors import ArgumentError, FileError, FormatError

WORDS = st.lists(st.integers(4, 99), min_size=1, max_size=6)
PAIRS: st.SearchStrategy[list[Pair]] = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=9)


def corpus(path: Path, text: str) -> Path:
    """Write one."""
    path.write_bytes(text.encode("utf-8"))
    return path


@given(PAIRS)
def test_a_batch_holds_its_pairs(pairs: list[Pair]) -> None:
    batch = sentence_batch(pairs)
    assert [value.dtype.name for value in batch] == ["int32"] * 5 + ["float32"]
    for place, (source, target) in enumerate(pairs):
        size, longer = batch.encoder_lengths[place], batch.decoder_lengths[place]
        assert batch.encoder_inputs[:size, place][::-1].tolist() == source
        assert batch.decoder_inputs[:longer, place].tolist() == [GO, *target]
        assert batch.targets[:longer, place].tolist() == [*target, END]
        assert batch.target_weights[:, place].tolist() == [1.0] * longer + [0.0] * (len(batch.targets) - longer)
        for column, end in ((batch.encoder_inputs, size), (batch.decoder_inputs, longer), (batch.targets, longer)):
            assert set(column[end:, place].tolist()) <= {PAD}
    assert len(batch.encoder_inputs) == max(batch.encoder_lengths)
    assert len(batch.decoder_inputs) == len(batch.targets) == max(batch.decoder_lengths)


@given(PAIRS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_batches_hold_all_pairs_and_are_full(pairs: list[Pair], size: int, shuffled: random.Random) -> None:
    batches = batches_of(pairs, size, shuffled.shuffle)
    assert {len(batch) for batch in batches} == {size}
    found = sorted(pair for batch in batches for pair in batch)
    assert found == sorted([*pairs, *pairs[-1:] * (len(found) - len(pairs))])
    assert len(found) - len(pairs) < size


def test_pairs_are_read_line_by_line_and_sorted(tmp_path: Path) -> None:
    source = corpus(tmp_path / "source", "b a\n\na\r\na a a\nb b\na é\n")
    target = corpus(tmp_path / "target", "y\nz\nx y z\n\nx\nz z\nmore\n")
    vocabularies = read_vocabulary(source, 0), read_vocabulary(target, 0)
    assert [list(words)[4:] for words in vocabularies] == [["b", "a", "é"], ["y", "z", "x", "more"]]
    wanted = [([5], [6, 4, 5]), ([4, 5], [4]), ([4, 4], [6]), ([5, 6], [5, 5])]
    assert pairs_of(source, target, vocabularies) == wanted
    assert pairs_of(source, target, vocabularies, longest=2) == wanted[1:]
    assert pairs_of(source, target, vocabularies, longest=0) == []


def test_rare_words_are_unknown(tmp_path: Path) -> None:
    path = corpus(tmp_path / "corpus", "a b b c\nc c  c d\n\n a\tq <GO> <GO> <GO>\n")
    counts = {"a": 2, "b": 2, "c": 4, "d": 1, "q": 1}
    for rare in range(5):
        vocabulary = read_vocabulary(path, rare)
        assert list(vocabulary) == [*sentences.MARKS, *(word for word, count in counts.items() if count > rare)]
        assert list(vocabulary.values()) == list(range(len(vocabulary)))
        assert sentences.numbers_of("d <EOS> none", vocabulary) == [vocabulary.get("d", 3), 2, 3]


def test_what_is_no_corpus_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bytes").write_bytes(b"a b\n\xff\n")
    with pytest.raises(FormatError, match="UTF-8"):
        read_vocabulary(tmp_path / "bytes", 0)
    with pytest.raises(FileError, match="No such file"):
        read_vocabulary(tmp_path / "none", 0)
    monkeypatch.setattr(sentences, "LINE_BYTES_MAX", 5)
    assert len(read_vocabulary(corpus(tmp_path / "short", "a bc\na\n"), 0)) == 6
    with pytest.raises(FormatError, match="over 5 bytes"):
        read_vocabulary(corpus(tmp_path / "long", "a bcd\n"), 0)


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one"):
        sentence_batch([])
    with pytest.raises(ArgumentError, match="sentence 1"):
        sentence_batch([([4], [5]), (["a"], [5])])  # pyright: ignore[reportArgumentType] -- what is wrong with it
    with pytest.raises(ArgumentError, match="sentence 0"):
        sentence_batch([([2**40], [5])])
    with pytest.raises(ArgumentError, match="at least one"):
        batches_of([([4], [5])], 0, np.random.default_rng(0).shuffle)

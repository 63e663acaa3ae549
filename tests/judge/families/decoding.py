"""Labels of sequences, and words in trees: what must be probabilities, symbols, lengths or messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema, OpView
from tazza.proto import HierarchyProto, NodeProto, PathNodeProto, PathProto, TreeProto
from tests.check import evaluate
from tests.judge.condition import Factor, steps_of, wide
from tests.judge.families.label import classes, distribution
from tests.judge.families.segment import lengths_of
from tests.judge.hand import Array, Hand, Sketch, draws


def steps_within(hand: Hand, T: int, N: int) -> dict[str, Array]:
    """Return lengths of sequences, or none."""
    return {"lengths": hand.rng.integers(0, T, N, endpoint=True).astype(np.int32)} if hand.chance(0.6) else {}


@draws("CTCBeamSearchDecoder")
def beam_search(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    T, N, C = hand.integer(0, 6), hand.batch(), hand.integer(1, 6)
    found = hand.some({"beam_width": hand.integer(1, 12), "num_candidates": hand.integer(0, 3)})
    return Sketch(found, values={"X": distribution(hand, (T, N, C)), **steps_within(hand, T, N)})


@draws("CTC")
def ctc(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    T, N, C = hand.given.get("X", (hand.integer(0, 9), hand.batch(), hand.integer(2, 9)))
    count = hand.integer(0, 2 * N) if N else 0
    values = {"labels": classes(hand, (count,), C - 1) + np.int32(1), "label_lengths": lengths_of(hand, count, N)}
    test = hand.chance(0.4)
    return Sketch({"is_test": int(test)}, {"X": (T, N, C)}, values | steps_within(hand, T, N), 2 if test else 3)


def node(hand: Hand, depth: int, words: list[int], rows: list[int]) -> NodeProto:
    """Return a node with words, and other nodes if it is not too deep; `rows` counts rows and `words` the words."""
    children = hand.integer(0, 2) if depth > 0 else 0
    own = list(range(words[0], words[0] + hand.integer(0 if children else 1, 3)))
    made = NodeProto(offset=rows[0], name=f"node{rows[0]}", word_ids=own)
    words[0] += len(own)
    rows[0] += children + len(own)
    made.children.extend(node(hand, depth - 1, words, rows) for _ in range(children))
    return made


def paths(at: NodeProto, above: tuple[PathNodeProto, ...] = ()) -> list[PathProto]:
    """Return the path to each word."""
    width = len(at.children) + len(at.word_ids)
    ways = [(*above, PathNodeProto(index=at.offset, length=width, target=i)) for i in range(width)]
    found = [path for child, way in zip(at.children, ways, strict=False) for path in paths(child, way)]
    own = zip(at.word_ids, ways[len(at.children) :], strict=True)
    return found + [PathProto(word_id=word, path_nodes=way) for word, way in own]


@draws("HSoftmax", "HSoftmaxGradient", "HSoftmaxSearch")
def words_in_trees(hand: Hand, schema: OpSchema) -> Sketch:
    rows = [0]
    root = node(hand, 2, [0], rows)
    known = paths(root)
    M, D, R = hand.batch(), hand.integer(1, 7), rows[0] + hand.integer(0, 1)
    shapes: dict[str, Any] = {"X": (M, D), "W": (R, D), "b": (R,)}
    if schema.type == "HSoftmaxSearch":
        most = {"beam": hand.real(0.1, 9), "topN": hand.integer(0, 9)}
        return Sketch({"tree": TreeProto(root_node=root).SerializeToString(), **hand.some(most)}, shapes)
    met = [hand.pick(known) for _ in range(M)]
    values: dict[str, Array] = {"label": np.array([path.word_id for path in met], np.int32)}
    if "between" in schema.inputs_by_letter:
        size = sum(2 * one.length for path in met for one in path.path_nodes)
        values["between"] = hand.rng.uniform(0.1, 1, size).astype(np.float32)
        shapes["dY"] = (M,)
    hierarchy = HierarchyProto(size=rows[0], paths=known).SerializeToString()
    return Sketch({"hierarchy": hierarchy}, shapes, values)


@steps_of("HSoftmax", "HSoftmaxSearch")
def logarithms_of_shares(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """Where a probability is rounded, its logarithm moves by as much, however near to 0 it is."""
    plain = evaluate(op, [wide(x) for x in inputs])
    return [y + 4 * (factor(y.shape, 1.0) - 1) if y.dtype.kind == "f" else y for y in plain]


@draws("HuffmanTreeHierarchy")
def huffman(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    count = hand.integer(1, 9)
    return Sketch({"num_classes": count}, values={"label": hand.rng.integers(0, count, hand.integer(0, 40))})

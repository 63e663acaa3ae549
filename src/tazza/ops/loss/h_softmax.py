"""Softmax over a tree of words: HSoftmax, its gradient, HSoftmaxSearch, HuffmanTreeHierarchy.

Of M samples X (M, D) each scores the children of every node above its word, by rows of the weights W (R, D) and the
bias b (R) that belong to the node: n rows from `index` on. The probability of a word is the product of those that the
softmax of each node gives the child on the way.

Trees are messages: `TreeProto` has nodes with children and words, and where their rows begin; `HierarchyProto` the
path to each word. `caffe2.python.hsm_util` makes the one of the other.

Sources: Morin, Bengio 2005; Huffman 1952; Caffe2.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    forbidden,
    kernel,
    not_written,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.loss.cross_entropy import PROBABILITY_MIN
from tazza.ops.shape.axis import agree, product, require_as_many, require_within
from tazza.proto import HierarchyProto, NodeProto, OperatorDef, PathNodeProto, TreeProto
from tazza.runtime.cache import remembered
from tazza.tensor import DataType, TensorSpec

X = blob("X", FLOAT, doc="(M, D...): samples; of rank 1 it is one")
W = blob("W", "X", role=Role.PARAMETER, doc="(R, D...)")
B = blob("b", "X", "R", role=Role.PARAMETER)
LABEL = blob("label", DataType.INT32, role=Role.INDEX, doc="the word of each sample")
HIERARCHY = arg("hierarchy", bytes, b"", doc="a HierarchyProto: the path to each word")

H_SOFTMAX = schema(
    "HSoftmax",
    """Y[m] = -the sum of log(max(p, 1e-20)) over the nodes on the path to label[m].

    `between` has for each of these nodes its n scores, and behind them the n probabilities.""",
    inputs=[X, W, B, LABEL],
    outputs=[blob("Y", "X", doc="(M)"), blob("between", "X", dynamic=True, doc="two numbers for each child met")],
    args=[HIERARCHY],
    effects=Effects.PURE,
    source="Morin, Bengio 2005; Caffe2",
    example="""
    >>> from tazza.proto import HierarchyProto, PathNodeProto, PathProto
    >>> way = HierarchyProto(paths=[PathProto(word_id=7, path_nodes=[PathNodeProto(index=0, length=2, target=1)])])
    >>> run("HSoftmax", [[1.0]], [[0.0], [0.0]], [0.0, 0.0], [7], hierarchy=way.SerializeToString())
    (array([0.6931472], dtype=float32), array([0. , 0. , 0.5, 0.5], dtype=float32))
    """,
)
H_SOFTMAX_GRADIENT = schema(
    "HSoftmaxGradient",
    "The derivatives of the sum of dY * Y by X, W, b, and by all that stands in `between`.",
    inputs=[
        X,
        W,
        blob("b", None, "R", role=Role.SHAPE, doc="of any type"),
        LABEL,
        blob("between", "X", role=Role.DATA),
        blob("dY", "X", role=Role.DATA, doc="M elements"),
    ],
    outputs=[blob("dX", like="X"), blob("dW", like="W"), blob("db", "X", "R"), blob("dbetween", like="between")],
    args=[HIERARCHY],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> from tazza.proto import HierarchyProto, PathNodeProto, PathProto
    >>> way = HierarchyProto(paths=[PathProto(word_id=7, path_nodes=[PathNodeProto(index=0, length=2, target=1)])])
    >>> between, hierarchy = [0.0, 0.0, 0.5, 0.5], way.SerializeToString()
    >>> run("HSoftmaxGradient", [[1.0]], [[0.0], [0.0]], [0.0, 0.0], [7], between, [2.0], hierarchy=hierarchy)[2:]
    (array([ 1., -1.], dtype=float32), array([ 1., -1.,  0., -4.], dtype=float32))
    """,
)
H_SOFTMAX_SEARCH = schema(
    "HSoftmaxSearch",
    """The likeliest nodes and words for each sample: their names, those of words their numbers, and -log p.

    From the root down, children are met whose score is at most `beam` above that of their node; a node's children
    come before its words. Where fewer than `topN` are met, the rest has no name and the score 0.""",
    inputs=[X, W, B],
    outputs=[blob("names", DataType.STRING, doc="(M, topN)"), blob("scores", "X", doc="(M, topN)")],
    args=[
        arg("tree", bytes, b"", doc="a TreeProto whose nodes know where their rows begin"),
        arg("beam", float, 0.01, doc="how much worse a child may be"),
        arg("topN", int, 5, minimum=0, doc="how many are given"),
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("names have none"),
    source="Caffe2",
    example="""
    >>> from tazza.proto import NodeProto, TreeProto
    >>> tree = TreeProto(root_node=NodeProto(offset=0, word_ids=[7, 8])).SerializeToString()
    >>> run("HSoftmaxSearch", [[1.0]], [[0.0], [1.0]], [0.0, 0.0], tree=tree, beam=2.0, topN=1)
    (array([[b'8']], dtype=object), array([[0.31326166]], dtype=float32))
    """,
)
HUFFMAN_TREE_HIERARCHY = schema(
    "HuffmanTreeHierarchy",
    """tree = a TreeProto in which frequent words are near the root: the two rarest parts are joined, again and again.

    Of parts that are as rare, those with fewer nodes above their words are joined first, so that words that never occur
    don't chain up. A word that is the second child of its node leaves one row unused behind it, as in Caffe2;
    `hsm_util` counts the rows anew. With a single class the root has no word.""",
    inputs=[blob("label", DataType.INT64, "_", role=Role.INDEX, doc="words as they occur, each in [0, num_classes)")],
    outputs=[blob("tree", DataType.STRING, "1")],
    args=[arg("num_classes", int, minimum=0, maximum=2**26, doc="how many words there are")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Huffman 1952; Caffe2",
    example="""
    >>> from tazza.proto import TreeProto
    >>> TreeProto.FromString(run("HuffmanTreeHierarchy", np.array([0, 0, 1]), num_classes=2)[0]).root_node.word_ids
    [1, 0]
    """,
)


def sample_dims(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec) -> int | None:
    """Return M, as far as known; checks the extents of a sample against those of the parameters."""
    if W.dims is not None:
        op.require(len(W.dims) > 0 and agree(W.dims[0], b.dims[0] if b.dims else None), "W and b differ in their rows")
    if X.dims is None:
        return None
    M = X.dims[0] if len(X.dims) > 1 else 1
    D = product(X.dims[1:] if len(X.dims) > 1 else X.dims)
    if W.dims is not None:
        relation = f"X has the shape {show_dims(X.dims)}, W {show_dims(W.dims)}"
        op.require(agree(D, product(W.dims[1:])), relation, "a sample has as many elements as a row of W")
    return M


@remembered("softmax hierarchies", 8)
def paths_of(hierarchy: bytes) -> dict[int, list[PathNodeProto]]:
    """Return the path to each word of a HierarchyProto; of a large one that takes longer than a run.

    Raises:
        DecodeError: it is none.
    """
    found = HierarchyProto.FromString(hierarchy)
    return {path.word_id: list(path.path_nodes) for path in found.paths}


@H_SOFTMAX.validate
@H_SOFTMAX_GRADIENT.validate
def h_softmax_validate(op: OpView) -> None:
    try:
        paths_of(op.hierarchy)
    except DecodeError as error:
        raise op.error(ArgumentError, f"hierarchy is no HierarchyProto: {error}") from None


@dataclass(frozen=True, slots=True)
class Meeting:
    """A sample at a node of its path: number, rows of the node, child on the way, and where `between` has it."""

    m: int
    rows: slice
    target: int
    scores: slice
    probabilities: slice


def meetings(op: OpView, label: Array, M: int, R: int) -> list[Meeting]:
    """Return all meetings, in the order in which `between` has them.

    Raises:
        NumericError: a label is not in the hierarchy, or a node has no rows in W.
    """
    paths, found, at = paths_of(op.hierarchy), list[Meeting](), 0
    for m, word in enumerate(label.reshape(-1)[:M].tolist()):
        if word not in paths:
            raise op.error(NumericError, f"label {word} of sample {m} is not in the hierarchy")
        for node in paths[word]:
            begin, n = node.index, node.length
            if not 0 <= begin <= begin + n <= R or not 0 <= node.target < n:
                message = f"a node on the path to {word} has rows {begin} to {begin + n} and child {node.target}"
                raise op.error(NumericError, f"{message}, W has {R} rows")
            own = slice(at, at + n), slice(at + n, at + 2 * n)
            found.append(Meeting(m, slice(begin, begin + n), node.target, *own))
            at += 2 * n
    return found


def flat(array: Array, rows: int) -> Array:
    """Return an array as a matrix of so many rows."""
    return array.reshape(rows, array.size // max(rows, 1))


def softmax(scores: Array) -> Array:
    """Return the softmax of a vector."""
    powers = np.exp(scores - scores.max(initial=-np.inf))
    return powers / powers.sum()


@H_SOFTMAX.infer
def h_softmax_infer(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, label: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    M = sample_dims(op, X, W, b)
    given = None if label.dims is None else product(label.dims)
    op.require(M is None or given is None or given >= M, f"{given} labels for {M} samples", "one for each")
    return TensorSpec((M,), X.dtype), TensorSpec((None,), X.dtype)


@H_SOFTMAX.cost
def h_softmax_cost(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, label: TensorSpec, Y: TensorSpec, between: TensorSpec
) -> Cost:
    del op
    return _cost_of_children(X, W, b, between, passes=1) + streamed((label,), (Y,))


def _cost_of_children(X: TensorSpec, W: TensorSpec, b: TensorSpec, between: TensorSpec, passes: int) -> Cost:
    """Return the cost of multiplying the sample by the rows of all children met, so many times."""
    children = between.size // 2
    rows, picked = max(b.size, 1), W.nbytes + b.nbytes
    read = X.nbytes + children * picked // rows
    return Cost(children * (2 * passes * W.size // rows + 4), read, between.nbytes, picked)


@H_SOFTMAX.gradient
def h_softmax_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("HSoftmaxGradient", [g.X, g.W, g.b, g.label, g.between, g.dY], [g.dX, g.dW, g.db, g.dbetween])


@kernel(H_SOFTMAX)
def h_softmax(op: OpView, X: Array, W: Array, b: Array, label: Array, Y: Array, between: DynamicOutput) -> None:
    x, w = flat(X, Y.size), flat(W, len(W))
    met = meetings(op, label, Y.size, len(w))
    found = between.allocate((met[-1].probabilities.stop if met else 0,))
    Y[...] = 0
    for one in met:
        found[one.scores] = w[one.rows] @ x[one.m] + b[one.rows]
        found[one.probabilities] = softmax(found[one.scores])
        Y[one.m] -= np.log(max(found[one.probabilities][one.target], PROBABILITY_MIN))


@H_SOFTMAX_GRADIENT.infer
def h_softmax_gradient_infer(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, label: TensorSpec, between: TensorSpec, dY: TensorSpec
) -> tuple[TensorSpec, ...]:
    del label
    M = sample_dims(op, X, W, b)
    require_as_many(op, "Y", (M,), dY=dY.dims)
    return X, W, TensorSpec(b.dims, X.dtype), between


@H_SOFTMAX_GRADIENT.cost
def h_softmax_gradient_cost(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, label: TensorSpec, between: TensorSpec, **others: Any
) -> Cost:
    del op
    moved = streamed((label, between, others["dY"]), (others["dX"], others["dW"], others["db"]))
    return _cost_of_children(X, W, b, between, passes=2) + moved


@kernel(H_SOFTMAX_GRADIENT)
def h_softmax_gradient_kernel(
    op: OpView,
    X: Array,
    W: Array,
    label: Array,
    between: Array,
    dY: Array,
    dX: Array,
    dW: Array,
    db: Array,
    dbetween: Array,
) -> None:
    x, w, dx, dw = (flat(one, rows) for one, rows in ((X, dY.size), (W, len(W)), (dX, dY.size), (dW, len(W))))
    numbers, slopes, dy = between.reshape(-1), dbetween.reshape(-1), dY.reshape(-1)
    met = meetings(op, label, dY.size, len(W))
    needed = met[-1].probabilities.stop if met else 0
    op.require(numbers.size == needed, f"between has {numbers.size} elements, the paths have {needed}")
    for one in (dx, dw, db, slopes):
        one[...] = 0
    for one in met:
        p = numbers[one.probabilities]
        slopes[one.probabilities][one.target] = -dy[one.m] / max(p[one.target], PROBABILITY_MIN)
        by_p = slopes[one.probabilities]
        step = slopes[one.scores]
        step[...] = p * (by_p - (p * by_p).sum())
        dx[one.m] += step @ w[one.rows]
        dw[one.rows] += np.outer(step, x[one.m])
        db[one.rows] += step


@H_SOFTMAX_SEARCH.validate
def h_softmax_search_validate(op: OpView) -> None:
    op_tree(op)


def op_tree(op: OpView) -> NodeProto:
    """Return the root.

    Raises:
        ArgumentError: the argument is no TreeProto, or its root does not know where its rows begin.
    """
    try:
        root = TreeProto.FromString(op.tree).root_node
    except DecodeError as error:
        raise op.error(ArgumentError, f"tree is no TreeProto: {error}") from None
    if not root.HasField("offset"):
        raise op.error(ArgumentError, "the root of the tree has no offset", "hsm_util.create_hierarchy counts the rows")
    return root


@H_SOFTMAX_SEARCH.infer
def h_softmax_search_infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    dims = sample_dims(op, X, W, b), op.topN
    return TensorSpec(dims, DataType.STRING), TensorSpec(dims, X.dtype)


@H_SOFTMAX_SEARCH.cost
def h_softmax_search_cost(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, names: TensorSpec, scores: TensorSpec
) -> Cost:
    """As for a beam that meets all nodes."""
    del op, names
    M = scores.shape[0]
    picked = W.nbytes + b.nbytes
    return Cost(2 * M * W.size, X.nbytes + picked, scores.nbytes, picked)


def met_below(op: OpView, node: NodeProto, x: Array, W: Array, b: Array, above: float) -> Iterator[tuple[float, str]]:
    """Yield score and name of all that a sample x (D) meets below a node of the score `above`.

    Raises:
        NumericError: a node has no rows in W.
    """
    n = len(node.children) + len(node.word_ids)
    rows = slice(node.offset, node.offset + n)
    if not 0 <= rows.start <= rows.stop <= len(W):
        raise op.error(NumericError, f"node {node.name!r} has rows {rows.start} to {rows.stop}, W has {len(W)} rows")
    scores = above - np.log(np.maximum(softmax(W[rows] @ x + b[rows]), PROBABILITY_MIN))
    met = scores.tolist()
    for score, child in zip(met, node.children, strict=False):
        if score - above <= op.beam:
            yield score, child.name
            yield from met_below(op, child, x, W, b, score)
    for score, word in zip(met[len(node.children) :], node.word_ids, strict=True):
        if score - above <= op.beam:
            yield score, str(word)


@kernel(H_SOFTMAX_SEARCH)
def h_softmax_search(op: OpView, X: Array, W: Array, b: Array, names: Array, scores: Array) -> None:
    root, w = op_tree(op), flat(W, len(W))
    names[...], scores[...] = b"", 0
    for m, x in enumerate(flat(X, len(scores))):
        found = sorted(met_below(op, root, x, w, b, 0.0), key=lambda one: one[0])[: op.topN]
        for i, (score, name) in enumerate(found):
            scores[m, i], names[m, i] = score, name.encode()


@dataclass(order=True, slots=True)
class Part:
    """A word, or two parts that were joined; ordered by how often its words occur, then by the nodes down to them.

    A tree is no deeper than messages may be, 100: words of C occurrences need at least as many as a Fibonacci number
    for each node more, log C / log 1.6 in all, and those that never occur lie in a balanced tree.
    """

    count: int
    depth: int
    word: int | None = field(default=None, compare=False)
    parts: tuple[Part, ...] = field(default=(), compare=False)

    def write(self, node: NodeProto, offset: int) -> int:
        """Write what is joined here into a node whose rows begin at `offset`; returns where those behind it begin."""
        node.offset = offset
        offset += len(self.parts)
        for position, part in enumerate(self.parts):
            if part.word is None:
                offset = part.write(node.children.add(), offset)
            else:
                node.word_ids.append(part.word)
                offset += position
        return offset


@HUFFMAN_TREE_HIERARCHY.cost
def huffman_tree_hierarchy_cost(op: OpView, label: TensorSpec, tree: TensorSpec) -> Cost:
    del tree  # as long as the heap makes it
    return Cost(2 * op.num_classes * int(op.num_classes).bit_length(), label.nbytes)


@kernel(HUFFMAN_TREE_HIERARCHY)
def huffman_tree_hierarchy(op: OpView, label: Array, tree: Array) -> None:
    require_within(op, "label", label, 0, op.num_classes)
    heap: list[Part] = []
    for word, count in enumerate(np.bincount(label, minlength=op.num_classes).tolist()):
        heapq.heappush(heap, Part(count, 0, word))
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        depth = 1 + max(first.depth, second.depth)
        heapq.heappush(heap, Part(first.count + second.count, depth, None, (first, second)))
    made = TreeProto()
    (heap[0] if heap else Part(0, 0)).write(made.root_node, 0)
    tree[0] = made.SerializeToString()

"""HSoftmax, its gradient, HSoftmaxSearch, HuffmanTreeHierarchy: by products of probabilities; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, NumericError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.proto import HierarchyProto, NodeProto, PathNodeProto, PathProto, TreeProto
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

# root (rows 0, 1): "left" and the word 9; left (rows 2 to 4): the words 5, 6, 7
PATHS = {5: [(0, 2, 0), (2, 3, 0)], 6: [(0, 2, 0), (2, 3, 1)], 7: [(0, 2, 0), (2, 3, 2)], 9: [(0, 2, 1)]}
TREE = TreeProto(
    root_node=NodeProto(offset=0, children=[NodeProto(offset=2, name="left", word_ids=[5, 6, 7])], word_ids=[9])
).SerializeToString()
HIERARCHY = HierarchyProto(
    size=5,
    paths=[
        PathProto(word_id=word, path_nodes=[PathNodeProto(index=i, length=n, target=t) for i, n, t in nodes])
        for word, nodes in PATHS.items()
    ],
).SerializeToString()


def values(*shape: int) -> Array:
    """Return float32 numbers, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def shares(x: Array, W: Array, b: Array, first: int, n: int) -> tuple[list[float], list[float]]:
    """Return scores and probabilities of the children of a node."""
    scores = [float(np.dot(x.ravel(), W[i].ravel())) + float(b[i]) for i in range(first, first + n)]
    powers = [math.exp(score) for score in scores]
    return scores, [power / sum(powers) for power in powers]


def by_paths(X: Array, W: Array, b: Array, label: Array) -> tuple[Array, Array]:
    """Return the costs, and what was met on the paths."""
    costs, between = list[float](), list[float]()
    for x, word in zip(X, label.ravel().tolist(), strict=True):
        likely = 1.0
        for first, n, target in PATHS[word]:
            scores, p = shares(x, W, b, first, n)
            between += scores + p
            likely *= p[target]
        costs.append(-math.log(likely))
    return np.array(costs), np.array(between)


X, W, B, LABEL = values(4, 3), values(5, 3), values(5), np.array([7, 9, 5, 5], "i")
HOW: dict[str, Any] = {"hierarchy": HIERARCHY}
# The harness gives a gradient of `between` too, which the operator overwrites; `test_gradient` checks that of Y.
CASES = [
    Case("HSoftmax", [X, W, B, LABEL], by_paths, HOW, gradient=False, slack=4),
    Case(
        "HSoftmax",
        [X.reshape(4, 1, 3), W.reshape(5, 3, 1), B, LABEL[:, None]],
        by_paths,
        HOW,
        gradient=False,
        slack=4,
        id="other ranks",
    ),
    Case("HSoftmax", [X[0], W, B, LABEL[:1]], by_paths(X[:1], W, B, LABEL[:1]), HOW, gradient=False, slack=4, id="one"),
    Case("HSoftmax", [X[:0], W, B, LABEL[:0]], (np.zeros(0), np.zeros(0)), HOW, gradient=False, id="no samples"),
    Case(
        "HSoftmaxSearch",
        [np.array([[1], [0]], "f"), np.array([[0], [0], [0], [math.log(2)], [0]], "f"), np.zeros(5, "f")],
        (
            np.array([[b"left", b"9", b"6"], [b"left", b"9", b"5"]], object),
            -np.log([[1 / 2, 1 / 2, 1 / 4], [1 / 2, 1 / 2, 1 / 6]]),
        ),
        {"tree": TREE, "beam": 5.0, "topN": 3},
    ),
    Case(
        "HSoftmaxSearch",
        [np.array([0, 0], "f"), np.zeros((5, 2), "f"), np.array([1, 0, 0, 0, 0], "f")],
        (np.array([[b"left", b""]], object), np.array([[math.log(1 + math.exp(-1)), 0]])),
        {"tree": TREE, "beam": 1.0, "topN": 2},
        id="a narrow beam",
    ),
    Case(
        "HSoftmaxSearch",
        [X[:0], W, B],
        (np.zeros((0, 5), object), np.zeros((0, 5))),
        {"tree": TREE},
        id="no samples",
    ),
]


@on_all_engines(CASES)
def test_h_softmax(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_gradient() -> None:
    """That of Y is a central difference; that of `between` has a step for each number in it."""
    dY = np.array([1, -2, 0.5, 3], "f")
    between = run_op("HSoftmax", X, W, B, LABEL, **HOW)[1]
    slopes = run_op("HSoftmaxGradient", X, W, B, LABEL, between, dY, **HOW)
    given = [one.astype(np.float64) for one in (X, W, B)]
    for position, slope in enumerate(slopes[:3]):
        direction = values(*slope.shape)
        sides: list[float] = []
        for sign in (1, -1):
            moved = [*given, LABEL]
            moved[position] = moved[position] + sign * 1e-5 * direction
            sides.append(float((by_paths(moved[0], moved[1], moved[2], LABEL)[0] * dY).sum()))
        assert float((slope * direction).sum()) == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-4)
    p = shares(X[1], W, B, 0, 2)[1]
    at = 2 * (2 + 3)  # behind the two nodes of the first sample
    np.testing.assert_allclose(slopes[3][at : at + 4], [-2 * p[0], 2 * (1 - p[1]), 0, 2 / p[1]], rtol=1e-4)


def test_the_gradient_needs_that_of_both_outputs() -> None:
    """And overwrites that of `between`, as in Caffe2."""
    op = find_schema("HSoftmax").view(operator_def("HSoftmax", list("xwbl"), ["y", "m"], **HOW))
    (made,), names = gradient_for_op(op, ["y_grad", "m_grad"])
    assert (list(made.input), list(made.output)) == (
        ["x", "w", "b", "l", "m", "y_grad"],
        ["x_grad", "w_grad", "b_grad", "m_grad"],
    )
    assert names == ["x_grad", "w_grad", "b_grad", None]
    with pytest.raises(GradientError, match="HSoftmax needs the gradient of its output 'm'"):
        gradient_for_op(op, ["y_grad", None])


@pytest.mark.parametrize("type", ["HSoftmax", "HSoftmaxGradient"])
def test_what_is_no_hierarchy_is_refused_before_any_run(type: str) -> None:
    letters = find_schema(type)
    definition = operator_def(type, list(letters.inputs_by_letter), list(letters.outputs_by_letter), hierarchy=b"rub")
    with pytest.raises(ArgumentError, match="hierarchy is no HierarchyProto"):
        letters.view(definition)


def test_cost_counts_the_children_that_were_met() -> None:
    """Two children of 3 products each at the root, three more at the node below it."""
    schema = find_schema("HSoftmax")
    op = schema.view(operator_def("HSoftmax", list("xwbl"), ["y", "m"], **HOW))
    specs = [TensorSpec(x.shape, DataType.of(x)) for x in (X, W, B, LABEL)]
    costs = [
        schema.infer_cost(op, specs, [specs[0], TensorSpec((2 * children,), DataType.FLOAT)]) for children in (2, 5)
    ]
    assert [cost.flops for cost in costs] == [2 * (2 * 3 + 4), 5 * (2 * 3 + 4)]
    assert costs[1].bytes_read - costs[0].bytes_read == 3 * 4 * (3 + 1)
    assert costs[0].parameter_bytes == 4 * (5 * 3 + 5)


def counted(*counts: int) -> Array:
    """Return labels, each as often as it says."""
    return np.repeat(np.arange(len(counts)), counts)


def shown(node: NodeProto) -> Any:
    """Return a tree as nested lists: where its rows begin, its nodes, its words."""
    return [node.offset, *map(shown, node.children), *node.word_ids]


@pytest.mark.parametrize(
    ("counts", "tree"),
    [
        ((1, 2, 3, 4, 5, 6), [0, [2, 3, 4], [5, [7, [9, 0, 1], 2], 5]]),
        ((9, 8, 7, 6, 5, 4, 3, 2), [0, [2, [4, 5, 4], 0], [7, [9, [11, 7, 6], 3], [15, 2, 1]]]),
        ((1, 1, 1, 1), [0, [2, 0, 2], [5, 1, 3]]),
        ((1, 1, 1, 1, 1), [0, [2, 4, 3], [5, [7, 0, 2], 1]]),
        ((1,) * 7, [0, [2, [4, 0, 2], 4], [7, [9, 5, 6], [12, 1, 3]]]),
        ((5, 3, 3), [0, [2, 1, 2], 0]),
        ((2, 1), [0, 1, 0]),
        ((0, 0, 0), [0, [2, 0, 1], 2]),
        ((4,), [0]),
    ],
)
def test_huffman(counts: tuple[int, ...], tree: Any) -> None:
    """Trees that Caffe2 made, with the rows that it counted; words that are as frequent stand as they stood there."""
    made = run_op("HuffmanTreeHierarchy", counted(*counts), num_classes=len(counts))
    assert made.shape == (1,)
    assert shown(TreeProto.FromString(made[0]).root_node) == tree


def depths(node: NodeProto, depth: int = 1) -> dict[int, int]:
    """Return how many nodes are above each word."""
    below = [item for child in node.children for item in depths(child, depth + 1).items()]
    return dict([*below, *((word, depth) for word in node.word_ids)])


def test_huffman_codes_are_the_shortest() -> None:
    """The sum over all joined parts is what a code costs; no prefix code is shorter."""
    counts = np.random.default_rng(3).integers(1, 50, 13).tolist()
    root = TreeProto.FromString(run_op("HuffmanTreeHierarchy", counted(*counts), num_classes=13)[0]).root_node
    rest, cost = sorted(counts), 0
    while len(rest) > 1:
        joined = rest[0] + rest[1]
        cost, rest = cost + joined, sorted([*rest[2:], joined])
    assert sum(counts[word] * depth for word, depth in depths(root).items()) == cost


@pytest.mark.parametrize(("labels", "classes"), [((), 8000), ((3, 3, 5), 1000), (tuple(counted(*range(30))), 3000)])
def test_words_that_never_occur_lie_in_a_balanced_tree(labels: tuple[int, ...], classes: int) -> None:
    """One that chains up has more nodes in one another than a message may have."""
    made = run_op("HuffmanTreeHierarchy", np.array(labels, np.int64), num_classes=classes)
    above = depths(TreeProto.FromString(made[0]).root_node)
    assert sorted(above) == list(range(classes))
    often = len(set(labels))
    assert max(above.values()) <= often + math.ceil(math.log2(classes - often))


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("HSoftmax", [X, W, B, LABEL - 1], HOW, NumericError, "label 8 of sample 1 is not in the hierarchy"),
    ("HSoftmax", [X, W, B, LABEL[:3]], HOW, ShapeError, "3 labels for 4 samples"),
    (
        "HSoftmax",
        [X, W[:4], B[:4], LABEL],
        HOW,
        NumericError,
        "a node on the path to 7 has rows 2 to 5 .* W has 4 rows",
    ),
    ("HSoftmax", [X, W, B[:4], LABEL], HOW, ShapeError, "W and b differ in their rows"),
    ("HSoftmax", [X, W[:, :2], B, LABEL], HOW, ShapeError, r"X has the shape \(4, 3\), W \(5, 2\)"),
    ("HSoftmax", [X, W, B, LABEL], {"hierarchy": b"rubbish"}, ArgumentError, "hierarchy is no HierarchyProto"),
    ("HSoftmax", [X, W, B, LABEL.astype(np.int64)], HOW, DTypeError, "label is int64"),
    ("HSoftmaxGradient", [X, W, B, LABEL, X, X[:, 0]], HOW, ShapeError, "between has 12 elements, the paths have 34"),
    ("HSoftmaxGradient", [X, W, B, LABEL, X, X[:3, 0]], HOW, ShapeError, r"dY has the shape \(3\)"),
    ("HSoftmaxSearch", [X, W, B], {}, ArgumentError, "the root of the tree has no offset"),
    ("HSoftmaxSearch", [X, W, B], {"tree": b"rubb"}, ArgumentError, "tree is no TreeProto"),
    ("HSoftmaxSearch", [X, W, B], {"tree": TREE, "topN": -1}, ArgumentError, "'topN' = -1"),
    (
        "HSoftmaxSearch",
        [X, W[:4], B[:4]],
        {"tree": TREE, "beam": 9.0},
        NumericError,
        "node 'left' has rows 2 to 5, W has 4",
    ),
    ("HuffmanTreeHierarchy", [np.array([0, 2])], {"num_classes": 2}, NumericError, r"label\[1\] is 2, not in \[0, 2\)"),
    ("HuffmanTreeHierarchy", [np.array([0, -1])], {"num_classes": 2}, NumericError, r"label\[1\] is -1"),
    ("HuffmanTreeHierarchy", [np.array([0, 1])], {}, ArgumentError, "num_classes"),
    ("HuffmanTreeHierarchy", [np.array([0, 1], "i")], {"num_classes": 2}, DTypeError, "label is int32"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)

"""Dot products of all pairs of vectors, some of which are taken."""

from __future__ import annotations

import pytest

from tazza.graph.text import parse_net, print_net
from tazza.graph.transform import TRANSFORMS, PassContext
from tests.rewriting import Rewrite, check_rewrite

DIMS = dict.fromkeys("abc", (3, 5))
IN = "in: a, b, c"
PAIRS = "i = GivenTensorIntFill(; shape=[5], values=[3, 6, 7, 4, 2])"
STACK = "s, d = Concat(a, b, c; axis=1, add_axis=1)"
SQUARE = "p = BatchMatMul(s, s; trans_b=1)"
FLAT = "f = Flatten(p)"
CHOICE = "y = BatchGather(f, i)"
FUSED = "y = ConcatBatchMatMulBatchGatherOp(i, a, b, c)"


def net(*lines: str, out: str = "y", given: str = IN) -> str:
    """Return the text of a net; the pairs come first."""
    return "\n".join((given, f"out: {out}", PAIRS, *lines))


def left(id: str, *lines: str, out: str = "y", keep: str = "") -> Rewrite:
    """Return a net that stays as it is."""
    return Rewrite(id, net(*lines, out=out), None, DIMS, keep=keep)


CASES = [
    Rewrite("plain", net(STACK, SQUARE, FLAT, CHOICE), net(FUSED), DIMS),
    Rewrite(
        "the axis from behind, a vector twice",
        net("s, d = Concat(a, b, a; axis=-2, add_axis=1)", SQUARE, FLAT, CHOICE),
        net("y = ConcatBatchMatMulBatchGatherOp(i, a, b, a)"),
        DIMS,
    ),
    Rewrite(
        "a vector is known by one table",
        net("b = SparseLengthsSum(w, n, l)", STACK, SQUARE, FLAT, CHOICE, given="in: a, c, w, n, l"),
        net("b = SparseLengthsSum(w, n, l)", FUSED, given="in: a, c, w, n, l"),
        {"w": (7, 5)},
        constants="w",
        planned=True,
    ),
    Rewrite("vectors of unknown form", net(STACK, SQUARE, FLAT, CHOICE), None, DIMS, blind=True),
    Rewrite("matrices", net(STACK, SQUARE, FLAT, CHOICE), None, dict.fromkeys(DIMS, (2, 4, 5))),
    left("another axis", "s, d = Concat(a, b, c; axis=0, add_axis=1)", SQUARE, FLAT, CHOICE),
    left("other factors", STACK, "t = Relu(s)", "p = BatchMatMul(s, t; trans_b=1)", FLAT, CHOICE),
    left("the products of columns", STACK, "p = BatchMatMul(s, s; trans_a=1)", FLAT, CHOICE),
    left("an output", STACK, SQUARE, FLAT, CHOICE, out="y, p"),
    left("kept", STACK, SQUARE, FLAT, CHOICE, keep="s"),
    left("the number of parts is read", STACK, SQUARE, FLAT, CHOICE, out="y, d"),
    left("used elsewhere", STACK, SQUARE, FLAT, CHOICE, "q = Relu(s)", out="y, q"),
    left("an engine was asked for", STACK, f"{SQUARE} engine=onednn", FLAT, CHOICE),
    left("a vector is overwritten before the last", STACK, SQUARE, "a = Relu(a)", FLAT, CHOICE),
    left("the result has the name of a vector", STACK, SQUARE, FLAT, "b = BatchGather(f, i)", out="b"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_fuse_pair_product(case: Rewrite) -> None:
    if case.planned:  # indices are no float32 numbers: the text alone
        made = TRANSFORMS["fuse_pair_product"]().apply(parse_net(case.before), case.context)
        assert case.after is not None
        assert print_net(made.net) == print_net(parse_net(case.after))
    else:
        check_rewrite("fuse_pair_product", case)


def test_sums_of_rows_in_few_bits_are_vectors_whatever_is_known_of_the_table() -> None:
    look = "b = SparseLengthsSumFused8BitRowwise(w, n, l)"
    before, after = (net(look, *rest, given="in: a, c, w, n, l") for rest in ((STACK, SQUARE, FLAT, CHOICE), (FUSED,)))
    made = TRANSFORMS["fuse_pair_product"]().apply(parse_net(before))
    assert print_net(made.net) == print_net(parse_net(after))


def test_into_what_is_told() -> None:
    made = check_rewrite("fuse_pair_product", CASES[0])
    assert made.gone == dict.fromkeys("spfd", "fused into ConcatBatchMatMulBatchGatherOp 'y'")
    assert made.origins[-1] == ("Concat 's'", "BatchMatMul 'p'", "Flatten 'f'", "BatchGather 'y'")


def test_it_is_left_where_no_engine_takes_it() -> None:
    before = parse_net(CASES[0].before)
    context = CASES[0].context
    made = TRANSFORMS["fuse_pair_product"]().apply(
        before, PassContext(specs=context.specs, takes_operator=lambda op, inputs, device: False)
    )
    assert print_net(made.net) == print_net(before)

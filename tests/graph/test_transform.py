"""Transforms: patterns, registry, all of them together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import DuplicateError, NetError, NotFoundError, TazzaError, TransformError
from tazza.graph.backward import backward_pass
from tazza.graph.graph import Graph, Node
from tazza.graph.pattern import Matching
from tazza.graph.text import parse_net, print_net
from tazza.graph.transform import TRANSFORMS, PassContext, Transform, apply_all, order, transform
from tazza.proto import NetDef
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace
from tests.rewriting import Rewrite, check_rewrite, value_of


class Collect(Transform):
    """Match Relu after Relu and note what was matched; rewrite nothing."""

    name = "collect"

    def __init__(self) -> None:
        """Start without matches."""
        self.found: list[list[str]] = []

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """Any Relu."""
        del graph, partial
        return node.type == "Relu"

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Note the match, and take it out of further ones."""
        del graph
        self.found.append([node.outputs[0].name for node in match])
        for node in match:
            node.active = False


NET = "in: x\na = Relu(x)\nb = Softmax(a)\nc = Relu(b)\nd = Relu(c)\ne = Relu(a)"


@pytest.mark.parametrize(
    ("matching", "backwards", "found"),
    [
        (Matching.CONNECTED, False, [["a", "e"], ["c", "d"]]),
        (Matching.SORTED, False, [["a", "c", "d", "e"]]),
        (Matching.GENERAL, True, [["e", "a", "c", "d"]]),
        (Matching.SORTED, True, [["e"], ["d"], ["c"], ["a"]]),
    ],
)
def test_who_is_asked_to_join_a_match(matching: Matching, backwards: bool, found: list[list[str]]) -> None:
    class Asked(Collect):
        """With another way to match."""

    Asked.matching, Asked.backwards = matching, backwards
    made = Asked()
    graph = Graph.of(parse_net(NET))
    with pytest.raises(NetError, match="after transform 'collect'"):  # what it made inactive is needed
        made.rewrite(graph)
    assert made.found == found


def test_a_transform_that_breaks_the_net_is_told_apart_from_a_wrong_net() -> None:
    class Break(Collect):
        """Remove every Relu, with all that others need."""

        name = "break"

        def replace(self, graph: Graph, match: Sequence[Node]) -> None:
            """Remove it."""
            graph.remove(*match)

    with pytest.raises(NetError, match="after transform 'break'"):
        Break().apply(parse_net("in: x", "out: z", "y = Relu(x)", "z = Softmax(y)"))


def test_a_wrong_net_is_refused() -> None:
    with pytest.raises(NetError, match="reads 'q'"):
        apply_all(parse_net("in: x", "y = Relu(q)"))


def test_every_transform_has_help_and_a_place() -> None:
    names = order()
    assert sorted(names) == list(TRANSFORMS)
    for name in names:
        assert TRANSFORMS.help(name)
        assert TRANSFORMS[name].__doc__
        assert all(names.index(earlier) < names.index(name) for earlier in TRANSFORMS[name].after)


def test_third_parties_add_transforms() -> None:
    try:

        @transform("drop_softmax", help="for a test", after=("canonicalise",))
        class DropSoftmax(Transform):
            """Softmax gives its input."""

            def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
                """One Softmax."""
                del graph
                return not partial and node.type == "Softmax"

            def replace(self, graph: Graph, match: Sequence[Node]) -> None:
                """Merge its values."""
                graph.remove(*match)
                graph.merge(match[0].outputs[0], match[0].inputs[0])

        made = apply_all(parse_net("in: x", "out: z", "y = Softmax(x)", "z = Relu(y)"))
        assert print_net(made.net) == "in: x\nout: z\nz = Relu(x)"
        assert made.counts["drop_softmax"] == 1
        assert apply_all(made.net, without=["drop_softmax"]).counts.keys() >= {"canonicalise"}
        with pytest.raises(DuplicateError):
            transform("drop_softmax", help="again")(DropSoftmax)
    finally:
        TRANSFORMS.unregister("drop_softmax")


class Idle(Transform):
    """Matches nothing."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """No node."""
        return False

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Leave all as it is."""


class Misspelt(Idle):
    """Asks a node for what it has not."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """Fail."""
        return node.typo == "Relu"  # pyright: ignore


class Patternless(Transform):
    """Has no rule."""


BAD_TRANSFORMS: list[tuple[str, type[Transform], Sequence[str], type[TazzaError], Sequence[str]]] = [
    ("bad", Idle, ("canonicalize",), NotFoundError, ["'bad' is to run after 'canonicalize'", "did you mean canonical"]),
    ("bad", Idle, ("bad",), TransformError, ["are to run after each other: 'bad' before 'bad'"]),
    ("bad", Idle, "ab", TransformError, ["transform 'bad': after is text"]),
    ("bad", Misspelt, (), TransformError, ["transform 'bad' failed: AttributeError: ", "typo", "in pattern of "]),
    ("bad", Patternless, (), TransformError, ["transform 'bad': class Patternless has no pattern and no replace"]),
]


@pytest.mark.parametrize(("name", "cls", "after", "kind", "texts"), BAD_TRANSFORMS)
def test_a_bad_transform_is_told_with_its_name_and_where_it_is_declared(
    name: str, cls: type[Transform], after: Sequence[str], kind: type[TazzaError], texts: Sequence[str]
) -> None:
    def use() -> None:
        transform(name, help="for a test", after=after)(cls)
        apply_all(parse_net("in: x", "y = Relu(x)"))

    try:
        with pytest.raises(kind) as caught:
            use()
    finally:
        TRANSFORMS.unregister(name)
    assert all(text in str(caught.value) for text in [*texts, f"declared in {__file__}, line "])


def test_an_unknown_transform_is_refused() -> None:
    with pytest.raises(NotFoundError, match="transform 'constant_fould'"):
        apply_all(parse_net("y = Relu(x)"), without=["constant_fould"])


VECTORS = {name: (4,) for name in ("s", "i", "m", "v")}
RESIDUAL = Rewrite(
    "a residual block",
    """
    in: x, w, u, s, i, m, v
    out: z
    y = Conv(x, w; kernel=3, pad=1)
    y = SpatialBN(y, s, i, m, v; is_test=1, epsilon=0.5)
    y = Relu(y)
    y = Dropout(y; is_test=1)
    q = Conv(y, u; kernel=1)
    q = SpatialBN(q, s, i, m, v; is_test=1, epsilon=0.5)
    q = Sum(q, y)
    z = Relu(q)
    """,
    """
    in: x, w_folded, y_bias_folded, u_folded, q_bias_folded
    out: z
    y = FusedConv(x, w_folded, y_bias_folded; operands=0, epilogue="relu(y)", kernel=3, pad=1)
    z = FusedConv(y, u_folded, q_bias_folded, y; operands=1, epilogue="relu(y + s0)", kernel=1)
    """,
    {"x": (2, 3, 5, 6), "w": (4, 3, 3, 3), "u": (4, 4, 1, 1), **VECTORS},
    """
    in: w, s, i, m, v, u
    out: w_folded, y_bias_folded, u_folded, q_bias_folded
    w_folded, y_bias_folded = FoldBatchNorm(w, s, i, m, v; axis=0, group=1, epsilon=0.5)
    u_folded, q_bias_folded = FoldBatchNorm(u, s, i, m, v; axis=0, group=1, epsilon=0.5)
    """,
    constants="w u s i m v",
)


def test_a_residual_block_becomes_two_operators() -> None:
    made = check_rewrite("all", RESIDUAL)
    assert made.origins[1] == ("Conv 'q'", "SpatialBN 'q'", "Sum 'q'", "Relu 'z'")
    assert made.gone == {"q": "fused into FusedConv 'z'"}
    assert str(made.specs["w_folded"]) == "float32[4, 3, 3, 3]"


@pytest.mark.slow
def test_a_training_net_keeps_its_parameters() -> None:
    forward = parse_net(
        "in: x, w, b, s, i, m, v, rate",
        "out: z",
        "f = FC(x, w, b)",
        "y, m, v, sm, si = SpatialBN(f, s, i, m, v; is_test=0, epsilon=0.5)",
        "y = Relu(y)",
        "z = FC(y, u, c)",
    )
    forward.external_input.extend(["u", "c"])
    gradients, names = backward_pass(forward.op, ["z"])
    net = NetDef()
    net.CopyFrom(forward)
    net.op.extend(gradients)
    updated = ("w", "b", "s", "i", "u", "c")
    net.op.extend(parse_net(*(f"{p} = WeightedSum({p}, one, {names[p]}, rate)" for p in updated)).op)
    net.external_input.append("one")
    dims = {"x": (7, 3), "w": (4, 3), "b": (4,), "u": (5, 4), "c": (5,), "rate": (1,), "one": (1,), **VECTORS}
    case = Rewrite("", print_net(net), None, dims)
    made = apply_all(net, case.context)
    types = [op.type for op in made.net.op]
    assert "FusedSpatialBN" in types
    assert "FusedSpatialBNGradient" in types
    assert len(made.net.op[-len(updated) - 1 :][0].output) == 2, "dX of the first FC is not needed"
    compare = {name: value_of(name, extents) for name, extents in dims.items()}
    before, after = Workspace(), Workspace()
    for name, value in compare.items():
        before.feed(name, value * 0.1 if name == "rate" else value)
        after.feed(name, value * 0.1 if name == "rate" else value)
    for _ in range(2):
        before.run_net_once(net)
        after.run_net_once(made.net)
    for name in (*updated, "m", "v", "z"):
        np.testing.assert_allclose(after.fetch(name), before.fetch(name), rtol=1e-3, atol=1e-4, err_msg=name)


BLOBS = ("x", "d", "a", "b", "c")
UNARY = st.sampled_from(["Relu", "Copy", "Softmax", "StopGradient", "Scale"])
LINES = st.one_of(
    st.tuples(st.sampled_from(BLOBS), UNARY, st.sampled_from(BLOBS), st.none()),
    st.tuples(
        st.sampled_from(BLOBS), st.sampled_from(["Sum", "ReluGradient", "MatMul"]), st.sampled_from(BLOBS),
        st.sampled_from(BLOBS),
    ),
)  # fmt: skip
IN_PLACE = {"Relu", "StopGradient", "Scale", "Sum"}


def _line(step: tuple[str, str, str, str | None], there: set[str]) -> str | None:
    """Return an operator's line, None where it would read what is not there or write where it must not."""
    out, type, first, second = step
    reads = [first] if second is None else [first, second]
    if not there.issuperset(reads) or (out in reads and (type not in IN_PLACE or out in reads[1:])):
        return None
    there.add(out)
    return f"{out} = {type}({', '.join(reads)}{'; scale=0.5' if type == 'Scale' else ''})"


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(LINES, min_size=1, max_size=12),
    outputs=st.sets(st.sampled_from(BLOBS), max_size=2),
    constants=st.sets(st.sampled_from(["x", "d"])),
    told=st.booleans(),
)
def test_no_net_changes_its_results(
    steps: list[tuple[str, str, str, str | None]], outputs: set[str], constants: set[str], told: bool
) -> None:
    there = {"x", "d"}
    lines = [line for line in (_line(step, there) for step in steps) if line is not None]
    net = parse_net("in: x, d", *lines)
    net.external_output.extend(sorted(outputs & there))
    specs = {name: TensorSpec((3, 3), DataType.FLOAT) for name in ("x", "d")} if told else {}
    assert list(apply_all(net, without=order()).net.op) == list(net.op)
    made = apply_all(net, PassContext(constants, specs=specs))
    before, after = Workspace(), Workspace()
    for name in ("x", "d"):
        before.feed(name, value_of(name, (3, 3)))
        after.feed(name, value_of(name, (3, 3)))
    after.run_net_once(made.prelude)
    written = {name for op in net.op for name in op.output}
    surviving = set(net.external_output) | (written & {"x", "d"})
    assert not surviving & made.gone.keys()
    for _ in range(2):
        before.run_net_once(net)
        after.run_net_once(made.net)
        for name in (written | {"x", "d"}) - made.gone.keys():
            np.testing.assert_allclose(after.fetch(name), before.fetch(name), rtol=1e-3, atol=1e-4, err_msg=name)

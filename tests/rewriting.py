"""The harness of transform tests: a `Rewrite` is a net before and after, `check_rewrite` asserts what must hold."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tazza.graph.text import parse_net, print_net
from tazza.graph.transform import TRANSFORMS, PassContext, Rewritten, apply_all
from tazza.operator import Array
from tazza.proto import NetDef
from tazza.tensor import DataType, Int8Tensor, TensorSpec
from tazza.testing.value import assert_near
from tazza.workspace import Workspace

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Rewrite:
    """One net, and what a transform makes of it.

    `after` None: the net stays as it is. `dims` are the extents of external inputs: with them numbers are compared,
    and the transform knows the specs, unless it is `blind`; where the net is `planned`, those of constants alone, as
    in a plan. `constants` and `keep` are names with blanks between.
    """

    id: str
    before: str
    after: str | None = None
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    prelude: str = ""
    constants: str = ""
    keep: str = ""
    blind: bool = False
    planned: bool = False

    @property
    def context(self) -> PassContext:
        """What the transform is told."""
        constants = frozenset(self.constants.split())
        told = set[str]() if self.blind else constants & self.dims.keys() if self.planned else self.dims.keys()
        specs = {name: TensorSpec(self.dims[name], DataType.FLOAT) for name in told}
        return PassContext(constants, frozenset(self.keep.split()), specs)


def value_of(name: str, dims: tuple[int, ...]) -> Array:
    """Return float32 numbers for a blob, always the same; those of variances (`v...`) are positive."""
    value = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(dims).astype(np.float32)
    return np.abs(value) + 0.5 if name.startswith("v") else value


def check_rewrite(transform: str, case: Rewrite) -> Rewritten:
    """Apply a transform (or "all") and assert text and numbers."""
    net = parse_net(case.before)
    snapshot = net.SerializeToString(deterministic=True)
    made = apply_all(net, case.context) if transform == "all" else TRANSFORMS[transform]().apply(net, case.context)
    assert net.SerializeToString(deterministic=True) == snapshot, "the net itself was changed"
    needs = None if transform == "all" else TRANSFORMS[transform].needs
    types = {op.type for op in net.op}
    assert needs is None or not any(made.counts.values()) or needs & types, "it needs more than it says"
    for name in TRANSFORMS:
        other = TRANSFORMS[name]
        if other.needs is not None and not other.needs & types:
            assert not any(other().apply(net, case.context).counts.values()), f"{name} needs nothing that it names"
    expected = case.before if case.after is None else case.after
    assert print_net(made.net) == print_net(parse_net(expected))
    prelude = "\n".join(print_net(made.prelude).splitlines()[1:])
    assert prelude == print_net(parse_net(case.prelude))
    assert len(made.origins) == len(made.net.op)
    assert len(made.prelude_origins) == len(made.prelude.op)
    if case.dims:
        compare_numbers(net, made, case)
    return made


def compare_numbers(net: NetDef, made: Rewritten, case: Rewrite) -> None:
    """Run the net before and after, twice, and compare everything that must survive."""
    inputs = {name: value_of(name, dims) for name, dims in case.dims.items()}
    before, after = Workspace(), Workspace()
    for name, value in inputs.items():
        before.feed(name, value)
        after.feed(name, value)
    after.run_net_once(made.prelude)
    written = {name for op in net.op for name in op.output}
    surviving = {*net.external_output, *case.keep.split(), *(written & set(inputs))}
    assert not surviving & made.gone.keys()
    for _ in range(2):
        before.run_net_once(net)
        after.run_net_once(made.net)
        for name in (surviving | written) - made.gone.keys():
            got, wanted = after.fetch(name), before.fetch(name)
            if isinstance(wanted, Int8Tensor):
                assert_near(got, wanted)
            else:
                np.testing.assert_allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
    for name in set(inputs) - written:
        np.testing.assert_array_equal(after.fetch(name), inputs[name], err_msg="an external input was overwritten")

"""Random nets: chains of 2 to 8 operators, each drawn for the shape of a blob at hand, with their backward passes.

A blob at hand is the start, or what an operator before has made. The next operator reads one of them (mostly the
latest; an older one makes a branch, or a second reader), and, where a further input has the shape of another one, often
that as well: so there are joins. Some write over what they read. What else they need is drawn and fed, as weights are.

A candidate counts when it runs in float64 and its numbers stay within reason, so that what is compared is not noise.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tazza.errors import TazzaError
from tazza.graph.backward import backward_pass
from tazza.operator import SCHEMAS, Effects, RowSlices, effects_of, find_schema, may_overwrite, operator_def
from tazza.operator.choice import find_kernel
from tazza.operator.schema import OpSchema
from tazza.proto import OperatorDef
from tazza.tensor import DataType
from tests.judge.draw import CannotDraw, compute, draw, drawable
from tests.judge.exact import GIVEN, Blobs, run_exactly, step_exactly
from tests.judge.hand import Array, Shape
from tests.judge.meaning import has_meaning

FAVOURED = {
    "conv": 14,
    "conv_transpose": 4,
    "pool": 8,
    "fc": 5,
    "concat": 7,
    "sum": 6,
    "arithmetic": 6,
    "relu": 5,
    "clip": 4,
    "batch_norm": 5,
    "softmax": 2,
    "reshape": 2,
}
"""How often families that nets are made of are drawn, to one draw of each other family."""
LARGEST = 20_000
"""Elements of a blob that another operator may read."""
REASONABLE = 1e4
"""Numbers beyond it, either way, are drawn anew: what comes after would be rounding alone."""
NOT_DRAWN = (CannotDraw, IndexError, ValueError)
ILLEGAL = (TazzaError, AssertionError, ValueError, TypeError, AttributeError, KeyError, IndexError)
"""What the reference kernels raise in float64, or for other numbers of images."""
TRIES = 12
"""How many operators are drawn for one place of a chain."""


@dataclass
class Chain:
    """A net with what it is fed.

    `batched` are the fed blobs whose first extent is the number of images, in a chain that runs with other numbers of
    them; `outputs` is what is compared.
    """

    seed: int
    forward: list[OperatorDef] = field(default_factory=list[OperatorDef])
    backward: list[OperatorDef] = field(default_factory=list[OperatorDef])
    fed: dict[str, Array] = field(default_factory=dict[str, Array])
    outputs: list[str] = field(default_factory=list[str])
    batched: tuple[str, ...] = ()

    @property
    def ops(self) -> list[OperatorDef]:
        """All operators in order."""
        return [*self.forward, *self.backward]

    @property
    def state(self) -> frozenset[str]:
        """Fed blobs that a run changes."""
        return frozenset(name for op in self.ops for name in op.output if name in self.fed)

    def __str__(self) -> str:
        """Return the operators, one a line, and the shapes of what is fed."""
        lines = [f"chain {self.seed}:"]
        for op in self.ops:
            view = SCHEMAS[op.type].view(op)
            words = {a.name: getattr(view, a.name, None) for a in op.arg if a.name in SCHEMAS[op.type].args}
            lines.append(f"  {', '.join(op.output)} = {op.type}({', '.join(op.input)}) {words}")
        lines.extend(f"  {name}: {array.dtype} {array.shape}" for name, array in self.fed.items())
        return "\n".join(lines)


def draw_chain(seed: int) -> Chain:
    """Return a chain, the same for the same seed."""
    for attempt in range(100):
        rng = np.random.default_rng([seed, attempt])
        made = _Growing(Chain(seed), rng)
        made.start()
        length = int(rng.integers(2, 9))
        while len(made.chain.forward) < length and made.grow():
            pass
        if len(made.chain.forward) >= 2:
            made.finish()
            return made.chain
    raise CannotDraw(f"chain {seed}")


def _pure(op: OperatorDef) -> bool:
    return effects_of(find_schema(op.type).view(op)) is Effects.PURE


@functools.cache
def _candidates() -> tuple[tuple[OpSchema, ...], Array]:
    """Return the schemas of operators that chains are made of, and how probable each is."""
    found = [SCHEMAS[type] for type in drawable() if SCHEMAS[type].effects is Effects.PURE]
    found = [one for one in found if one.inputs and not any(_is_gradient(spec.name) for spec in one.inputs)]
    found = [one for one in found if not has_meaning(one)]
    families: dict[str, int] = {}
    for one in found:
        families[one.module] = families.get(one.module, 0) + 1
    weights = [FAVOURED.get(one.module.rsplit(".", 1)[-1], 1) / families[one.module] for one in found]
    return tuple(found), np.array(weights) / sum(weights)


def _is_gradient(letter: str) -> bool:
    return letter[0] == "d" and letter[1:2].isupper()


@functools.cache
def _takes(type: str, rank: int) -> bool:
    """Whether a problem is found with a first input of so many axes."""
    letter = SCHEMAS[type].inputs[0]
    shape = (2, 18, 7, 6, 5, 4, 3, 3)[:rank]
    try:
        draw(type, 0, dtype=DataType.FLOAT, given={f"{letter.name}_0" if letter.variadic else letter.name: shape})
    except NOT_DRAWN:
        return False
    return True


@dataclass
class _Growing:
    """A chain as it grows.

    `values` of all blobs in float64, `made` those that operators write, `floats` those of float32 among them; `hand`
    what the next operator may read, the latest last.
    """

    chain: Chain
    rng: np.random.Generator
    values: Blobs = field(default_factory=dict[str, Array])
    hand: list[str] = field(default_factory=list[str])
    made: set[str] = field(default_factory=set[str])
    floats: set[str] = field(default_factory=set[str])

    def start(self) -> None:
        """Feed the first blob: mostly images."""
        rng = self.rng
        kind = rng.random()
        sizes = [int(n) for n in rng.permutation(np.arange(3, 10))]
        channels = int(rng.integers(1, 71)) if rng.random() < 0.6 else int(rng.choice((3, 8, 16, 24, 32, 64)))
        if kind < 0.7:
            shape: Shape = (int(rng.integers(1, 4)), channels, sizes[0], sizes[1])
        elif kind < 0.85:
            shape = (sizes[0], channels)
        else:
            shape = tuple(sizes[: int(rng.integers(1, 6))])
        self._feed("x", rng.standard_normal(shape).astype(np.float32))
        self.hand.append("x")

    def grow(self) -> bool:
        """Append an operator; False where none was found. Sometimes it is one of before, on other weights."""
        if self.chain.forward and self.rng.random() < 0.15 and self._again():
            return True
        return any(self.hand and self._try() for _ in range(TRIES))

    def finish(self) -> None:
        """Add a backward pass, and what is compared."""
        chain, rng = self.chain, self.rng
        silent = {name for op in chain.forward for name in _unwritten(op)}
        read = {name for op in chain.forward for name in op.input} | silent
        last = {name: i for i, op in enumerate(chain.forward) for name in op.output}
        ends = [name for name in last if name not in read or name in chain.fed]
        last_one = chain.forward[-1]
        ends.extend(name for name in last_one.output if name not in ends and name not in silent)
        chain.outputs = list(dict.fromkeys(ends))
        inner = [name for name in last if name not in chain.outputs and name not in silent]
        if inner and rng.random() < 0.25:
            chain.outputs.append(str(rng.choice(inner)))
        floats = [name for name in ends if name in self.floats]
        if floats and rng.random() < 0.7:
            self._differentiate(floats)
        first = self.values["x"]
        if first.ndim > 1 and first.shape[0] > 1 and not chain.state:
            chain.batched = self._batched(first.shape[0])

    # -- one operator --------------------------------------------------------------------------------------------------

    def _try(self) -> bool:
        """Draw an operator and take it if its numbers are reasonable."""
        rng = self.rng
        schemas, weights = _candidates()
        schema = schemas[int(rng.choice(len(schemas), p=weights))]
        source = self._pick_source()
        if not _takes(schema.type, self.values[source].ndim):
            return False
        given = self._given(schema, source)
        try:
            problem = draw(
                schema.type,
                int(rng.integers(2**31)),
                dtype=DataType.FLOAT,
                given={name: self.values[blob].shape for name, blob in given.items()},
            )
        except NOT_DRAWN:
            return False
        names = dict(given)
        fresh: dict[str, Array] = {}
        for name, array in problem.inputs.items():
            if name in names and array.dtype == np.float32:
                continue
            twin = self._twin(array) if rng.random() < 0.5 else None
            names[name] = f"{problem.type}{len(self.chain.forward)}_{name}" if twin is None else twin
            if twin is None:
                fresh[names[name]] = np.asarray(array)
        op = self._renamed(schema, problem.definition, names)
        dtypes = [made.dtype for made in compute(problem).values()]
        changed = [
            new for new, dtype in zip(op.output, dtypes, strict=True) if new in self.made and dtype != np.float32
        ]
        return not changed and self._take(op, fresh, dtypes)

    def _again(self) -> bool:
        """Do what an operator does once more: on what it reads, or on another blob of that shape, with new weights.

        So there is a blob of the shape of another one, which further operators may join with it.
        """
        op = self.chain.forward[int(self.rng.integers(len(self.chain.forward)))]
        if any(name in op.input for name in op.output) or op.input[0] not in self.hand:
            return False
        twin, number = OperatorDef.FromString(op.SerializeToString()), len(self.chain.forward)
        twins = {name: f"{name}_{number}" for name in op.input if name in self.chain.fed and name != "x"}
        twins = {name: new for name, new in twins.items() if self.rng.random() < 0.7}
        fresh = {new: self._shuffled(self.chain.fed[name]) for name, new in twins.items()}
        shape = self.values[op.input[0]].shape
        alike = [name for name in self.hand if self.values[name].shape == shape]
        twin.input[:] = [str(self.rng.choice(alike)), *(twins.get(name, name) for name in op.input[1:])]
        twin.output[:] = [f"{name}_{number}" for name in op.output]
        dtypes = [np.dtype(np.float32) if name in self.floats else self.values[name].dtype for name in op.output]
        return self._take(twin, fresh, dtypes)

    def _shuffled(self, array: Array) -> Array:
        """Return the rows of an array in another order; what is positive, or a label, stays so."""
        return self.rng.permutation(array) if array.ndim else array

    def _pick_source(self) -> str:
        if self.rng.random() < 0.65:
            return self.hand[-1]
        return str(self.rng.choice(self.hand))

    def _given(self, schema: OpSchema, source: str) -> dict[str, str]:
        """Return which inputs are which blobs at hand: the first one, and some more of a variadic letter."""
        letter = schema.inputs[0]
        if not letter.variadic:
            return {letter.name: source}
        rank = self.values[source].ndim
        others = [name for name in self.hand if name != source and self.values[name].ndim == rank]
        same = [
            name
            for name in others
            if sum(a != b for a, b in zip(self.values[name].shape, self.values[source].shape, strict=True)) <= 1
        ]
        count = min(len(same), int(self.rng.integers(0, 3)))
        taken = [str(name) for name in self.rng.permutation(same)[:count]] if count else []
        return {f"{letter.name}_{i}": name for i, name in enumerate(self.rng.permutation([source, *taken]).tolist())}

    def _twin(self, array: Array) -> str | None:
        """Return a blob at hand of the same shape, None where there is none."""
        if array.dtype != np.float32:
            return None
        found = [name for name in self.hand if self.values[name].shape == array.shape]
        return str(self.rng.choice(found)) if found else None

    def _renamed(self, schema: OpSchema, drawn: OperatorDef, names: Mapping[str, str]) -> OperatorDef:
        op = OperatorDef.FromString(drawn.SerializeToString())
        number = len(self.chain.forward)
        over = self._overwrites(schema, op, names)
        outputs = [names[name] if name in names else f"{op.type}{number}_{name}o" for name in op.output]
        op.input[:] = [names[name] for name in op.input]
        op.output[:] = [over.get(i, name) for i, name in enumerate(outputs)]
        return op

    def _overwrites(self, schema: OpSchema, op: OperatorDef, names: Mapping[str, str]) -> dict[int, str]:
        """Return which outputs shall be written over which blob, by position; weights that are fed stay."""
        if self.rng.random() > 0.25:
            return {}
        view = schema.view(op)
        for position in range(len(view.output_letters)):
            for place in may_overwrite(view, position):
                if op.output[position] not in names:
                    blob = names[op.input[place]]
                    if blob in self.made and list(names.values()).count(blob) == 1:
                        return {position: blob}
        return {}

    def _take(self, op: OperatorDef, fresh: Mapping[str, Array], dtypes: Sequence[np.dtype[Any]]) -> bool:
        """Append an operator, unless it is illegal here or its numbers are beyond reason."""
        before = dict(self.values)
        before.update({name: _wide(array) for name, array in fresh.items()})
        try:
            results = step_exactly(op, before)
        except ILLEGAL:
            return False
        for name, array in zip(op.output, results, strict=True):
            reshaped = name in self.chain.fed and before[name].shape != array.shape
            if reshaped or array.dtype == object or array.size > 10 * LARGEST or not _is_reasonable(array):
                return False
        for name, array in fresh.items():
            self._feed(name, array)
        self._append(op, results, dtypes)
        return True

    def _append(self, op: OperatorDef, results: Sequence[Array], dtypes: Sequence[np.dtype[Any]]) -> None:
        self.chain.forward.append(op)
        for name, array, dtype in zip(op.output, results, dtypes, strict=True):
            self.values[name] = array
            self.made.add(name)
            if dtype == np.float32:
                self.floats.add(name)
            if name in self.hand:
                self.hand.remove(name)
            if name in _unwritten(op):
                continue
            if dtype == np.float32 and 0 < array.size <= LARGEST and name not in self.chain.fed:
                self.hand.append(name)

    def _feed(self, name: str, array: Array) -> None:
        self.chain.fed[name] = array
        self.values[name] = _wide(array)

    # -- the backward pass ---------------------------------------------------------------------------------------------

    def _differentiate(self, ends: Sequence[str]) -> None:
        """Append the backward pass of some ends, and sometimes a step of stochastic gradient descent."""
        chain, rng = self.chain, self.rng
        targets = {name: f"{name}{GIVEN}" for name in rng.permutation(ends)[: int(rng.integers(1, 3))].tolist()}
        given = {new: rng.standard_normal(self.values[old].shape).astype(np.float32) for old, new in targets.items()}
        try:
            emitted, gradients = backward_pass(chain.forward, targets)
        except TazzaError:
            return
        if not all(_pure(op) and find_kernel(op.type, "cpu", "reference").function for op in emitted):
            return
        feeds, steps = self._descended(gradients) if rng.random() < 0.3 else ({}, [])
        everything = Chain(chain.seed, chain.forward, [*emitted, *steps], chain.fed | given | feeds)
        try:
            blobs = run_exactly(everything.ops, everything.fed)
        except ILLEGAL:
            return
        written = {name for op in everything.backward for name in op.output}
        wanted = [
            name
            for blob, gradient in gradients.items()
            if blob in chain.fed
            for name in ((gradient.indices, gradient.values) if isinstance(gradient, RowSlices) else (gradient,))
            if name in written
        ]
        if not wanted or not all(_is_reasonable(blobs[name]) for name in wanted):
            return
        chain.backward, chain.fed = everything.backward, everything.fed
        chain.outputs = list(dict.fromkeys([*chain.outputs, *wanted, *everything.state]))

    def _descended(self, gradients: Mapping[str, object]) -> tuple[dict[str, Array], list[OperatorDef]]:
        """Return what updates the weights that have a dense gradient, and what that reads."""
        fed: dict[str, Array] = {"lr": np.array([0.01], np.float32)}
        steps: list[OperatorDef] = []
        for name in self.chain.fed:
            gradient = gradients.get(name)
            if name == "x" or not isinstance(gradient, str) or gradient.endswith(GIVEN):
                continue
            fed[f"{name}_momentum"] = np.zeros(self.chain.fed[name].shape, np.float32)
            blobs = [gradient, f"{name}_momentum"]
            steps.append(operator_def("MomentumSGDUpdate", [*blobs, "lr", name], [*blobs, name], momentum=0.9))
        return (fed, steps) if steps else ({}, [])

    def _batched(self, images: int) -> tuple[str, ...]:
        """Return the fed blobs that can be cut to fewer images together, as far as the chain can."""
        chain = self.chain
        names = [name for name, array in chain.fed.items() if array.ndim > 0 and array.shape[0] == images]
        fewer = {name: a[:1] if name in names else a for name, a in chain.fed.items()}
        try:
            left = run_exactly(chain.ops, fewer)
        except ILLEGAL:
            return ()
        # Of as many elements as images by chance: what is made does not get fewer with them, its gradient may not.
        given = {name: a for name, a in fewer.items() if name.endswith(GIVEN)}
        return tuple(names) if all(left[name.removesuffix(GIVEN)].shape == a.shape for name, a in given.items()) else ()


def _unwritten(op: OperatorDef) -> list[str]:
    """Return the outputs that stand for nothing: the reference kernel does not write them."""
    function = find_kernel(op.type, "cpu", "reference").function
    letters = set(inspect.signature(function).parameters) if function is not None else set[str]()
    named = SCHEMAS[op.type].view(op).output_letters
    return [name for name, letter in zip(op.output, named, strict=True) if letter not in letters]


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _is_reasonable(array: Array) -> bool:
    if array.dtype.kind != "f" or array.size == 0:
        return True
    return bool(np.isfinite(array).all()) and float(np.abs(array).max()) < REASONABLE

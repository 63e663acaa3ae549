"""Random nets over the host and two devices of the fake driver, whose streams overtake each other; mutants of calls.

A mutant makes one call otherwise than it was meant: it drops a wait, tells an end too early, takes another stream,
swaps the arguments of a kernel. Whoever judges nets by their numbers must find that it did.
"""

from __future__ import annotations

import ctypes
import gc
import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tazza.device import device_option
from tazza.errors import TazzaError
from tazza.nets.base import PLAN
from tazza.nets.plan.instance import Instance
from tazza.operator import operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import CPUPlace, CUDAPlace, Place
from tazza.workspace import Workspace
from tests.device.cublas_library import fake_gpu
from tests.device.cuda_driver import SUCCESS, FakeCUDA, FakeStream
from tests.device.happens import Mark, Order

PLACES: dict[str, Place] = {"h": CPUPlace(), "c": CUDAPlace(0), "d": CUDAPlace(1)}
"""First letter of a blob's name -> where it lies."""
BLOBS = [f"{letter}{number}" for letter in PLACES for number in range(3)]
TYPES = ("simple", "async_scheduling", "dag", "async_polling", "plan")
ONE, TWO = ("Negative", "Softsign", "StopGradient"), ("Add", "Sub", "Mul")
SHAPE = (3, 5)


@dataclass(frozen=True)
class RandomNet:
    """Operators over `BLOBS`, and the type of the net that runs them."""

    type: str
    ops: list[OperatorDef]
    live: bool = False
    """Whether all that it makes ends on the host."""

    def net(self, name: str) -> NetDef:
        """Return the net on the devices."""
        net = NetDef(name=name, type=self.type, num_workers=2)
        net.op.extend(self.ops)
        if self.type == PLAN:  # which keeps no others
            net.external_output.extend(dict.fromkeys(op.output[0] for op in self.ops))
        return net

    def on_host(self) -> NetDef:
        """Return what it computes, as a net of the host that takes one operator after the other."""
        net = NetDef(name="on the host", type="simple")
        for op in self.ops:
            made = net.op.add()
            made.CopyFrom(op)
            made.ClearField("device_option")
            made.type = "Copy" if op.type.startswith("Copy") else op.type
        return net


def draw_net(draw: random.Random) -> RandomNet:
    """Return a random net of some operators; half of what they write is read soon."""
    ops: list[OperatorDef] = []
    last = draw.choice(BLOBS)
    for _ in range(draw.randint(3, 12)):
        source = last if draw.random() < 0.6 else draw.choice(BLOBS)
        ops.append(_copy(draw, source) if draw.random() < 0.35 else _compute(draw, source))
        last = ops[-1].output[0]
    return RandomNet(draw.choice(TYPES), ops)


def draw_live_net(draw: random.Random) -> RandomNet:
    """Return a random net in which nothing is in vain: its inputs and outputs lie on the host, all it makes is read."""
    ops: list[OperatorDef] = []
    unread, readable = ["h0", "h1", "h2"], ["h0", "h1", "h2"]
    for number in range(draw.randint(5, 14)):
        source = draw.choice(unread if draw.random() < 0.8 else readable)
        made = _copy(draw, source) if draw.random() < 0.4 else _compute(draw, source, readable)
        ops.append(_renamed(made, f"{made.output[0][0]}{number + 3}"))
        unread = [name for name in unread if name not in ops[-1].input] + [ops[-1].output[0]]
        readable.append(ops[-1].output[0])
    for name in unread:
        if name[0] != "h":
            ops.append(operator_def("CopyGPUToCPU", [name], [f"h_{name}"], device=device_option(PLACES[name[0]])))
    return RandomNet(draw.choice(TYPES), ops, live=True)


def _renamed(op: OperatorDef, output: str) -> OperatorDef:
    op.output[:] = [output]
    return op


def _compute(draw: random.Random, source: str, readable: Sequence[str] = BLOBS) -> OperatorDef:
    near = [name for name in readable if name[0] == source[0]]
    inputs = [source] if draw.random() < 0.4 else [source, draw.choice(near)]
    type = draw.choice(ONE if len(inputs) == 1 else TWO if inputs[0] != inputs[1] else TWO[::2])
    output = draw.choice([name for name in BLOBS if name[0] == source[0] and name not in inputs[1:]])
    return operator_def(type, inputs, [output], device=device_option(PLACES[source[0]]))


def _copy(draw: random.Random, source: str) -> OperatorDef:
    here = source[0]
    there = draw.choice("cd") if here == "h" else "h"
    type = "CopyCPUToGPU" if here == "h" else "CopyGPUToCPU"
    target = draw.choice([name for name in BLOBS if name[0] == there])
    return operator_def(type, [source], [target], device=device_option(PLACES[there if here == "h" else here]))


class Overtaking:
    """An order of streams that follows from a seed, and changes now and then."""

    def __init__(self, seed: int) -> None:
        """Begin with no stream."""
        self._draw = random.Random(seed)
        self._ranks: dict[FakeStream, float] = {}
        self._turns = 0

    def __call__(self, streams: list[FakeStream]) -> list[FakeStream]:
        """Return who goes first in this turn."""
        self._turns += 1
        if self._turns % 50 == 0:
            self._ranks.clear()
        return sorted(streams, key=self._rank)

    def _rank(self, stream: FakeStream) -> float:
        return self._ranks.setdefault(stream, self._draw.random())


@contextmanager
def host_is_seen(order: Order) -> Generator[None]:
    """Let the order know what the host itself reads and writes in a plan, until the block ends."""
    run = Instance.run

    def seen(instance: Instance) -> None:
        if instance.on_host:
            program, bound = instance.program, instance._bound  # pyright: ignore[reportPrivateUsage] -- where blobs lie
            lie = ([bound[value.root].address for value in one.values()] for one in (program.inputs, program.outputs))
            order.host_touches(*lie)
        run(instance)

    patch = pytest.MonkeyPatch()
    patch.setattr(Instance, "run", seen)
    try:
        yield
    finally:
        patch.undo()


def difference(gpu: FakeCUDA, drawn: RandomNet, seed: int, runs: int = 3) -> str | None:
    """Run a net on the devices, and on the host; return what differs, or None.

    What the devices hold is fed anew, or not, before each run, and looked at after it, or not: who does not look does
    not wait.

    Raises:
        TazzaError: the net failed.
    """
    draw, random_numbers = random.Random(seed), np.random.default_rng(seed)
    there, here = Workspace(), Workspace()

    def feed(names: Sequence[str]) -> None:
        for name in names:
            blob = there.get_blob(name)
            if blob is not None and name[0] == "h":
                gpu.order.host_touches([], [blob.tensor().address])
            value = random_numbers.uniform(0.5, 2, SHAPE).astype(np.float32)
            there.feed(name, value, PLACES[name[0]])
            here.feed(name, value)

    def compare(names: Sequence[str]) -> str | None:
        for name in names:
            found, wanted = there.fetch(name), here.fetch(name)
            if not np.allclose(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True):
                return f"{name} is {found}, not {wanted}"
        return None

    outputs = dict.fromkeys(op.output[0] for op in drawn.ops)
    live = [name for name in outputs if name[0] == "h"] if drawn.live else BLOBS
    fed = [name for name in BLOBS if name[0] == "h"] if drawn.live else BLOBS
    feed(fed)
    net, judge = there.create_net(drawn.net("on devices")), here.create_net(drawn.on_host())
    try:
        for _ in range(runs):
            feed(fed if drawn.live else draw.sample(fed, draw.randint(0, 4)))
            with np.errstate(all="ignore"):
                judge.run()
            net.run()
            gpu.order.host_reads()
            told = compare(live if drawn.live else draw.sample(BLOBS, draw.choice((0, 0, 2))))
            if told is not None:
                return told
        return compare(live)
    finally:
        there.reset()
        here.reset()


# -- mutants -----------------------------------------------------------------------------------------------------------


@dataclass
class Mutant:
    """One call that is made otherwise: the one with this number among those of a kind that matter.

    A call matters if it makes a difference then: a wait for what has not ended.
    """

    gpu: FakeCUDA
    kind: str = ""
    number: int = 0
    met: int = 0
    """How many calls of the kind there were."""
    counts: Counter[str] = field(default_factory=Counter[str])
    """Calls that matter, of all kinds."""

    def __call__(self, name: str, args: tuple[Any, ...]) -> int | None:
        """Answer a call, or let it go on."""
        for kind, (names, matters, act) in KINDS.items():
            if name not in names or not matters(self.gpu, name, args):
                continue
            self.counts[kind] += 1
            if kind == self.kind:
                self.met += 1
                if self.number < self.met <= self.number + AT_ONCE.get(kind, 1):
                    return act(self.gpu, name, args)
        return None


def _pending(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> bool:
    """Whether the event or stream that is asked about, or waited for, has not ended."""
    if name.startswith("cuEvent"):
        return gpu.events[args[0]].last.at_ms is None
    return bool(gpu.streams[args[0]].steps)


def _event_pending(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> bool:
    return gpu.events[args[1]].last.at_ms is None


def _busy(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> bool:
    return bool(gpu.streams[args[1]].steps)


def _always(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> bool:
    return True


def _passed(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> int:
    return SUCCESS


def _early(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> int:
    mark = gpu.events[args[0]].last = Mark()
    mark.at_ms = gpu.clock_ms
    return SUCCESS


def _counter_pending(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> bool:
    return ctypes.c_uint32.from_address(args[1]).value < args[2]


def _kernel_words(args: tuple[Any, ...]) -> Any:
    extra = args[10]
    return (ctypes.c_int64 * (ctypes.c_size_t.from_address(extra[3]).value // 8)).from_address(extra[1])


def _addresses(gpu: FakeCUDA, args: tuple[Any, ...]) -> list[int]:
    """Return which words of a kernel are addresses of the device, one for each address."""
    seen: dict[int, int] = {}
    for place, word in enumerate(_kernel_words(args)):
        if gpu.kind_at(word).startswith("device"):
            seen.setdefault(word, place)
    return list(seen.values())


def _two_addresses(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> bool:
    return len(_addresses(gpu, args)) > 1


def _swapped(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> int:
    words = _kernel_words(args)
    first, *_, last = _addresses(gpu, args)
    given = list(words)
    words[first], words[last] = given[last], given[first]
    answer = gpu.cuLaunchKernel(*args)
    words[:] = given
    return answer


def _other_stream(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> int | None:
    """Return an idle stream of the same context, that a kernel or copy was not meant for."""
    place = STREAM[name]
    own = gpu.streams[args[place]]
    if not own.steps:
        return None  # nothing is before it: it may go first anywhere
    idle = [key for key, one in gpu.streams.items() if one.context == own.context and one is not own and not one.steps]
    return idle[0] if idle else None


def _elsewhere_possible(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> bool:
    return _other_stream(gpu, name, args) is not None


def _elsewhere(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> int:
    place = STREAM[name]
    function: Callable[..., int] = getattr(gpu, name)
    return function(*args[:place], _other_stream(gpu, name, args), *args[place + 1 :])


def _half(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> int:
    target, source, nbytes, stream = args
    return gpu.cuMemcpyAsync(target, source, nbytes // 2, stream)


def _others_ready(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> bool:
    own = gpu.ready.get(args[0])
    return own is not None and any(one is not own and one.context == own.context for one in gpu.ready.values())


def _another_graph(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> int:
    own = gpu.ready[args[0]]
    others = [key for key, one in gpu.ready.items() if one is not own and one.context == own.context]
    return gpu.cuGraphLaunch(others[0], args[1])


def _shifted(gpu: FakeCUDA, name: str, args: tuple[Any, ...]) -> int:
    target, source, nbytes, stream = args
    return gpu.cuMemcpyAsync(target, source + 4, nbytes - 4, stream)


STREAM = {"cuMemcpyAsync": 3, "cuLaunchKernel": 8, "cuGraphLaunch": 1}
KINDS: dict[str, tuple[tuple[str, ...], Callable[..., bool], Callable[..., int]]] = {
    "a stream does not wait": (("cuStreamWaitEvent",), _event_pending, _passed),
    "a stream does not wait for the host": (("cuStreamWaitValue32_v2",), _counter_pending, _passed),
    "the host does not wait": (("cuEventSynchronize", "cuStreamSynchronize"), _pending, _passed),
    "the host does not wait twice": (("cuEventSynchronize", "cuStreamSynchronize"), _pending, _passed),
    "an end is told too early": (("cuEventQuery",), _pending, _passed),
    "an end is marked too early": (("cuEventRecord",), _busy, _early),
    "a kernel is dropped": (("cuLaunchKernel",), _always, _passed),
    "a graph is dropped": (("cuGraphLaunch",), _always, _passed),
    "a graph is one of before": (("cuGraphLaunch",), _others_ready, _another_graph),
    "a copy is dropped": (("cuMemcpyAsync",), _always, _passed),
    "a copy of half": (("cuMemcpyAsync",), _always, _half),
    "a copy from another place": (("cuMemcpyAsync",), _always, _shifted),
    "arguments are swapped": (("cuLaunchKernel",), _two_addresses, _swapped),
    "another stream": (tuple(STREAM), _elsewhere_possible, _elsewhere),
}
"""What is done otherwise -> which calls, whether one matters, what is done."""
AT_ONCE = {"the host does not wait twice": 2}
"""Kind -> how many calls one behind the other are made otherwise; of others one."""
OF_ORDER = [kind for kind, (_, matters, _) in KINDS.items() if matters not in (_always, _two_addresses, _others_ready)]
"""Kinds that only change when something is done."""


def found_by(gpu: FakeCUDA, drawn: RandomNet, seed: int) -> str | None:
    """Return how a run tells that something was done otherwise, or None."""
    try:
        with host_is_seen(gpu.order):
            told = difference(gpu, drawn, seed)
    except TazzaError as error:
        return error.message
    return told if told is not None else next(iter(gpu.faults), None)


# -- judging -----------------------------------------------------------------------------------------------------------


def judge_nets(count: int, seed: int) -> Counter[str]:
    """Run random nets and assert that each gives what the host does; return how often which call mattered."""
    calls: Counter[str] = Counter()
    with fake_gpu() as library:
        for number in range(seed, seed + count):
            drawn = draw_net(random.Random(number))
            watch = Mutant(library.gpu)
            library.gpu.delays, library.gpu.tamper = Overtaking(number), watch
            told = found_by(library.gpu, drawn, number)
            assert told is None, f"net {number} of type {drawn.type}: {told}"
            assert not library.gpu.order.races, f"net {number} of type {drawn.type}: {library.gpu.order.races[0]}"
            calls += watch.counts
    return calls


@dataclass
class Judged:
    """How many mutants there were, by kind, and what told them; `missed` ones by the seeds of their nets.

    A mutant that changes only when things are done is `needless` where all that touches one place was still ordered by
    other calls: whatever time the work takes, the numbers are the same. It is not counted in `made`. `last` is the seed
    of the last net.
    """

    made: Counter[str] = field(default_factory=Counter[str])
    by_numbers: Counter[str] = field(default_factory=Counter[str])
    by_order: Counter[str] = field(default_factory=Counter[str])
    needless: Counter[str] = field(default_factory=Counter[str])
    missed: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    last: int = 0

    def tries(self, kind: str) -> int:
        """Return how many there were of a kind."""
        return self.made[kind] + self.needless[kind]


def judge_mutants(count: int, seed: int, orders: int = 6, judged: Judged | None = None) -> Judged:
    """Make mutants of calls in random nets, and see whether races tell, or numbers in one of some orders of streams.

    Later orders are tried where nothing has told until then. What was `judged` before is gone on with, to `count`.
    """
    judged = Judged(last=seed) if judged is None else judged
    gc.collect()
    gc.freeze()  # each run has the rest collected, and goes through no more than it made
    while judged.made.total() < count:
        judged.last += 1
        _judge(judged, judged.last, orders)
    return judged


def _judge(judged: Judged, number: int, orders: int) -> None:
    """Make a mutant of a call in the net of a seed."""
    draw = random.Random(number)
    drawn = draw_live_net(draw)
    plain = _run(drawn, number, number, "", 0)
    assert plain.told is None, f"net {number}: {plain.told}"
    assert not plain.races, f"net {number}: {plain.races[0]}"
    kinds = [kind for kind in KINDS if plain.counts[kind]]
    if not kinds:
        return  # all of it lies on the host
    kind = min(draw.sample(kinds, len(kinds)), key=judged.tries)  # the rarest are drawn first
    place = draw.randrange(plain.counts[kind])
    runs: list[_Run] = []
    for order in range(orders):
        runs.append(_run(drawn, number, order, kind, place))
        if runs[-1].told is not None or runs[-1].races:
            break
    _note(judged, (number, kind), runs)


def _note(judged: Judged, mutant: tuple[int, str], runs: Sequence[_Run]) -> None:
    number, kind = mutant
    told, raced = any(run.told is not None for run in runs), any(run.races for run in runs)
    if kind in OF_ORDER:
        assert raced or not told, f"net {number}, {kind}: other numbers, and nothing was out of order"
        if not raced and not told:
            judged.needless[kind] += 1
            return
    judged.made[kind] += 1
    judged.by_numbers[kind] += told
    judged.by_order[kind] += raced
    if not told and not raced:
        judged.missed.append((number, kind))


@dataclass(frozen=True)
class _Run:
    """What a run tells of itself, what touched one place without an order, and how often which call mattered."""

    told: str | None
    races: list[str]
    counts: Counter[str]


def _run(drawn: RandomNet, number: int, order: int, kind: str, place: int) -> _Run:
    with fake_gpu() as library:
        gpu = library.gpu
        gpu.delays, gpu.tamper = Overtaking(order), (mutant := Mutant(gpu, kind, place))
        told = found_by(gpu, drawn, number)
        gpu.tamper = None
        gpu.faults.clear()
        return _Run(told, gpu.order.races, mutant.counts)

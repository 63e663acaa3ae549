"""What kernels of a thread for each thing are written with: loops, choices, memory, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tazza.codegen.block import Slot, float_word
from tazza.codegen.loop import fold_loop
from tazza.codegen.term import Term
from tazza.device import current_context
from tazza.engines.cuda.launch import GridLaunch
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.errors import NumericError
from tazza.operator import Operands
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place

DEVICE = CUDAPlace(0)


def run(launch: GridLaunch, **tensors: Tensor) -> None:
    """Run a launch on the device, and wait for it."""

    def random() -> None:
        pytest.fail("nobody draws")

    context = current_context(DEVICE)
    launch.bind(Operands(tensors, None, random, context))()  # pyright: ignore[reportArgumentType] -- never called
    context.wait()


def there(values: object) -> Tensor:
    """Return a copy on the device."""
    return to_place(Tensor.from_numpy(np.asarray(values)), DEVICE)


@pytest.mark.parametrize("n", [0, 1, 300])
def test_each_thing_has_a_thread(n: int) -> None:
    X, Y = there(np.arange(max(n, 1), dtype=np.float32)), there(np.full(n + 1, -1, np.float32))
    words: Mapping[str, int | Slot] = {"X": Slot("X"), "Y": Slot("Y"), "half": float_word(0.5)}

    def write(t: Threads, i: Term) -> None:
        half = t.real("half").to(t.single.scalar)
        t.store("Y", i, t.load("X", i) * half)

    run(each_launch("a test of halves", n, words, write), X=X, Y=Y)
    np.testing.assert_array_equal(Y.plain(), [*np.arange(n) / 2, -1])


def test_loops_and_choices() -> None:
    """Each thread follows a chain of numbers, and adds up what its ends name; where there is no chain it keeps -1."""
    following, sums = there(np.array([2, 9, 3, 9], np.int64)), there(np.zeros(4, np.int64))

    def write(t: Threads, i: Term) -> None:
        def turn(k: Term) -> Term:
            t.put("sums", i, t.index("sums", i) + k)
            return t.index("next", k)

        t.follow(i, 4, turn)
        squares = fold_loop(0, i, 0, lambda k, total: total + k * k)
        kept = t.where(i.below(2), lambda: squares + t.index("sums", i), -1)
        t.put("sums", i, kept)

    run(each_launch("a test of loops", 4, {"next": Slot("n"), "sums": Slot("s")}, write), n=following, s=sums)
    assert np.asarray(sums.plain()).tolist() == [0 + 2 + 3, 1 + 0, -1, -1]


def test_what_is_wrong_is_told_where_somebody_waits() -> None:
    X = there(np.array([1, -1], np.int64))

    def write(t: Threads, i: Term) -> None:
        t.report(t.index("X", i) < 0)

    with pytest.raises(NumericError, match="found a number below 0"):
        run(each_launch("a test of reports", 2, {"X": Slot("X")}, write, complaint="a number below 0"), X=X)
    stream = current_context(DEVICE).stream
    assert stream is not None
    stream.recover()


def test_names_tell_kernels_apart() -> None:
    def write(t: Threads, i: Term) -> None:
        del t, i

    made = [each_launch("a test of names", 1, words, write) for words in ({"a": 1}, {"a": 2}, {"b": 1})]
    names = [launch.code.name for launch in made]
    assert names[0] == names[1] != names[2]


def test_least_most_select_and_totals() -> None:
    n = 7
    X, Y = there(np.arange(n, dtype=np.float32)), there(np.zeros(n, np.float32))
    P = there(np.zeros(3 * n, np.int64))

    def write(t: Threads, i: Term) -> None:
        found = i.at_most(4), i.at_least(2), i.equals(5).choose(-1, i)
        for k, one in enumerate(found):
            t.put("P", i * 3 + k, one)
        t.store("Y", i, t.total(0, i, lambda j: t.load("X", j), t.single.constant(0.5)))

    run(each_launch("a test of totals", n, {"X": Slot("X"), "Y": Slot("Y"), "P": Slot("P")}, write), X=X, Y=Y, P=P)
    numbers = range(n)
    expected = [[min(i, 4), max(i, 2), -1 if i == 5 else i] for i in numbers]
    np.testing.assert_array_equal(np.reshape(P.plain(), (n, 3)), expected)
    np.testing.assert_array_equal(Y.plain(), [0.5 + sum(range(i)) for i in numbers])

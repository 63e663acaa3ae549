"""Where an operator runs: reading `DeviceOption` messages, and the one in force (`device_scope`)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from tazza.errors import ArgumentError, UnavailableError
from tazza.proto import DeviceOption
from tazza.tensor import CPUPlace, CUDAPlace, Place

CPU, CUDA, IDEEP = 0, 1, 5
"""Numbers of `DeviceTypeProto` that tazza runs on; the others can be stored, not run.

IDEEP was the CPU by way of MKL-DNN, which is called oneDNN today: nets that name it run on the CPU.
"""

_current: ContextVar[DeviceOption | None] = ContextVar("tazza_device_option", default=None)


def device_option(
    place: Place | None = None, *, random_seed: int | None = None, node_name: str | None = None
) -> DeviceOption:
    """Return a `DeviceOption` for `place` (CPU by default).

    >>> device_option(CPUPlace(), random_seed=7).random_seed
    7

    Raises:
        ArgumentError: the seed does not fit 32 unsigned bits.
    """
    if random_seed is not None and not 0 <= random_seed < 2**32:
        raise ArgumentError(f"random_seed = {random_seed} is not in [0, 2**32)")
    option = DeviceOption(device_type=CPU)
    if place is not None and place.kind == "cuda":
        option = DeviceOption(device_type=CUDA, device_id=place.index)
    if random_seed is not None:
        option.random_seed = random_seed
    if node_name is not None:
        option.node_name = node_name
    return option


def place_of(option: DeviceOption) -> Place:
    """Return the Place that an option names.

    >>> place_of(DeviceOption(device_type=IDEEP)) == CPUPlace()
    True

    Raises:
        UnavailableError: a device type that tazza cannot run on.
    """
    if names_host(option):
        return CPUPlace()
    if option.device_type == CUDA:
        return CUDAPlace(option.device_id)
    raise UnavailableError(
        f"device type {option.device_type} is not one that tazza runs on", hint="use 0 (CPU) or 1 (CUDA)"
    )


def names_host(option: DeviceOption) -> bool:
    """Whether an option names the host; any device type is told from it.

    >>> names_host(DeviceOption()), names_host(DeviceOption(device_type=CUDA))
    (True, False)
    """
    return option.device_type in (CPU, IDEEP)


def merge(outer: DeviceOption, inner: DeviceOption) -> DeviceOption:
    """Return `outer` with every field that `inner` sets put over it; how a net's option reaches its operators."""
    merged = DeviceOption()
    merged.CopyFrom(outer)
    merged.MergeFrom(inner)
    return merged


@contextmanager
def device_scope(option: DeviceOption | None) -> Generator[DeviceOption | None]:
    """Give operators that are built inside, and have no option of their own, this option.

    An inner scope replaces the outer one; only `node_name` is inherited, and what `extra_info` says is said as well, in
    order. None leaves all of them.
    """
    effective = None if option is None else _below(_current.get(), option)
    token = _current.set(effective)
    try:
        yield effective
    finally:
        _current.reset(token)


def _below(outer: DeviceOption | None, option: DeviceOption) -> DeviceOption:
    """Return an option as it is inside of another one."""
    effective = DeviceOption()
    effective.CopyFrom(option)
    if outer is not None and outer.HasField("node_name") and not option.HasField("node_name"):
        effective.node_name = outer.node_name
    given: Sequence[str] = () if outer is None else outer.extra_info
    effective.extra_info[:] = sorted([*given, *option.extra_info])
    return effective


def scoped_device() -> DeviceOption | None:
    """Return the option of the innermost `device_scope`, or None outside of one."""
    return _current.get()

"""What this machine can do: the one model behind all estimates of time.

It is measured once per machine, in some 0.1 s, and kept with the compiled code. Estimates are for comparing algorithms:
what counts is how the rates relate, which a busy moment changes less than each of them; where it changes them much (a
neighbour took most of the memory's rate), LEAST_RELATION holds. Every user says which share of a rate its kernels
reach. What cannot be kept is not measured: processes would choose, and so round, differently.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import FileError
from tazza.runtime.digest import digest_of
from tazza.runtime.flags import flag
from tazza.runtime.kept_table import KeptTable
from tazza.runtime.log import logger
from tazza.runtime.native_code import native_function, processor, unavailable

MODEL = flag(
    "machine_model",
    "measured",
    "where estimates of time come from: this machine, or the one that their constants were found on (nominal)",
    choices=("measured", "nominal"),
    kernels=True,
)
SUMS, TURNS = 10, 20_000
"""Vectors that are added up side by side, since each sum waits for its own, and how often that is done."""
MEMORY_BYTES, CACHE_BYTES = 32 << 20, 1 << 20
"""What is copied: more than caches hold, and what the last one holds."""
ROUNDS = 8
LEAST_RELATION = 0.5
"""Part of what NOMINAL reads while it computes that all machines are taken to read: less was seen in busy moments.

On one machine, 2.7 to 12.1 bytes from memory were measured in a nanosecond, and 148 to 204 operations.
"""
MODELS = KeptTable("machine.json", "models of machines")


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of a machine: operations and bytes per nanosecond.

    `flops_per_ns` is what one core computes at the most in float32, where a multiplication with an addition is two.
    `memory_bytes_per_ns` is what all cores together read from memory, `cache_bytes_per_ns` what each reads from the
    last cache: half of what a copy moves.
    """

    flops_per_ns: float
    memory_bytes_per_ns: float
    cache_bytes_per_ns: float

    def __str__(self) -> str:
        return (
            f"a core computes up to {self.flops_per_ns:.0f} GFLOP/s in float32; {self.memory_bytes_per_ns:.0f} "
            f"GB/s come from memory, {self.cache_bytes_per_ns:.0f} GB/s from the last cache"
        )


NOMINAL = Machine(240.0, 22.0, 45.0)
"""Two cores of an AMD EPYC with AVX-512, with which the constants of estimates were found."""


def undisturbed(found: Machine) -> Machine:
    """Return rates as they were measured, but for what others at work took of them.

    >>> undisturbed(Machine(240.0, 1.5, 30.0))
    Machine(flops_per_ns=240.0, memory_bytes_per_ns=11.0, cache_bytes_per_ns=30.0)
    """
    least = LEAST_RELATION * found.flops_per_ns / NOMINAL.flops_per_ns
    memory = max(found.memory_bytes_per_ns, least * NOMINAL.memory_bytes_per_ns)
    return Machine(found.flops_per_ns, memory, max(found.cache_bytes_per_ns, least * NOMINAL.cache_bytes_per_ns))


def machine() -> Machine:
    """Return the model that estimates use.

    >>> with MODEL.override("nominal"):
    ...     print(machine())
    a core computes up to 240 GFLOP/s in float32; 22 GB/s come from memory, 45 GB/s from the last cache
    """
    return NOMINAL if MODEL.value == "nominal" else _measured_once()


@cache
def _measured_once() -> Machine:
    """Return what was measured on this machine, now or by another process before."""
    if MODELS.path is None or unavailable() is not None:
        return NOMINAL
    key, found = digest_of(repr(processor()).encode()).hex(), stored()
    if key not in found:
        found[key] = measure()
        try:
            MODELS.write({name: asdict(one) for name, one in found.items()})
        except FileError as error:
            logger.info("a model of this machine cannot be kept, so that the nominal one is used: %s", error)
            return NOMINAL
    return undisturbed(found[key])


def measure() -> Machine:
    """Measure the machine: the best of some rounds, since others may be at work on it."""
    lanes = processor().vector_bytes // 4
    sums = np.full(lanes, 0.5, np.float32)
    address = native_function(f"{SUMS} sums of {lanes} lanes", partial(_sums_text, lanes))
    add_up = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(address)
    compute_s = best_s(lambda: add_up(sums.ctypes.data, TURNS))
    return Machine(2 * lanes * SUMS * TURNS / compute_s / 1e9, _copied(MEMORY_BYTES), _copied(CACHE_BYTES))


def _sums_text(lanes: int, name: str) -> str:
    """Return the code of sums of products that stay in registers: s = s * x + x, in each lane of each vector."""
    vector, each = f"<{lanes} x float>", range(SUMS)
    lines = [
        f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
        f"define i64 @{name}(ptr %sums, i64 %turns) {{",
        "entry:",
        f"  %x = load {vector}, ptr %sums, align 4",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(f"  %s{k} = phi {vector} [ zeroinitializer, %entry ], [ %t{k}, %loop ]" for k in each),
        *(f"  %t{k} = call {vector} @llvm.fma.v{lanes}f32({vector} %s{k}, {vector} %x, {vector} %x)" for k in each),
        "  %next = add i64 %i, 1",
        "  %more = icmp ult i64 %next, %turns",
        "  br i1 %more, label %loop, label %end",
        "end:",
        f"  %u0 = fadd {vector} %t0, %x",
        *(f"  %u{k} = fadd {vector} %u{k - 1}, %t{k}" for k in each[1:]),
        f"  store {vector} %u{SUMS - 1}, ptr %sums, align 4",
        "  ret i64 0",
        "}",
    ]
    return "\n".join(lines)


def _copied(nbytes: int) -> float:
    """Return the bytes that a copy reads in a nanosecond."""
    source, target = np.ones(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    return nbytes / best_s(lambda: np.copyto(target, source)) / 1e9


def best_s(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the least seconds that some work takes, of several times."""
    best = float("inf")
    for _ in range(rounds):
        start_s = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start_s)
    return max(best, 1e-9)


def stored() -> dict[str, Machine]:
    """Return the models that are kept, by processor; none where one of them is broken, and then it says so."""
    try:
        return {key: _machine(rates) for key, rates in MODELS.read().items()}
    except (KeyError, TypeError, ValueError):
        logger.warning("the model of this machine is measured anew: %s holds other things", MODELS.path)
        return {}


def _machine(rates: Any) -> Machine:
    found = [float(rates[name]) for name in Machine.__slots__]
    if min(found) <= 0:
        raise ValueError("a rate is positive")
    return Machine(*found)

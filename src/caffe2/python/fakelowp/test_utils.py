"""How far numbers are from the exact ones, in units of the last place of float16; nets and blobs as text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.runtime.files import write_bytes_atomically

__all__ = ["compute_ulp_error", "np", "print_net", "print_test_debug_info", "sys"]

Reals = NDArray[np.float64]


def _sigmoid(x: Reals) -> Reals:
    return 1 / (1 + np.exp(-x))


EXACT: dict[str, Callable[[Reals], Reals]] = {
    "Swish": lambda x: x * _sigmoid(x),
    "Gelu": lambda x: x * _sigmoid(1.702 * x),
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
}
"""Operator -> what it is, in float64; Gelu by a sigmoid."""
SMALLEST = 2.0**-24
"""The unit of the last place of float16 where it is smallest."""


def compute_ulp_error(opname: str, xvec: Any, y_nnpi: Any) -> Reals:
    """Return by how many units of the last place of float16 each number of `y_nnpi` is above `opname(xvec)`.

    An operator that is none of `EXACT` is compared with `xvec` itself.

    >>> compute_ulp_error("Tanh", np.array([0.0, 1.0]), np.array([0.0, np.tanh(1.0) + 2.0**-11])).tolist()
    [0.0, 1.0]
    """
    x = np.asarray(xvec, np.float64)
    exact = EXACT[opname](x) if opname in EXACT else x
    exponents: Any = np.frexp(np.abs(exact))[1]
    return (np.asarray(y_nnpi, np.float64) - exact) / np.maximum(np.exp2(exponents - 11.0), SMALLEST)


def print_net(net: Any) -> None:
    """Print the inputs of a net, and its operators with their blobs."""
    for name in net.external_input:
        print(f"Input: {name}")
    for name in net.external_output:
        print(f"Output: {name}")
    for op in net.op:
        print(f"Op {op.type}")
        for blob in op.input:
            print(f"  input: {blob}")
        for blob in op.output:
            print(f"  output: {blob}")


def print_test_debug_info(testname: str, items_dict: Mapping[str, Any]) -> None:
    """Print names and values, and write them to `debug_operator_onnxifi_<testname>.txt` in the present folder."""
    for name, value in items_dict.items():
        print(name, value)
    text = "".join(f"{name}\n{value}\n" for name, value in items_dict.items())
    write_bytes_atomically(Path(f"debug_operator_onnxifi_{testname}.txt"), text.encode())

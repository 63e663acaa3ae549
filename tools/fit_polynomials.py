"""Fit the polynomials of `tazza.codegen`: of `vector`, `circle`, `saturating` and `double`.

Those of float32 by least squares at Chebyshev nodes, by relative error, those of float64 at Chebyshev nodes.

The functions that are fitted are smooth remainders, such as (exp(r) - 1 - r) / r^2, taken by series where the
difference would cancel. Needs the package mpmath.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

NODES = 400

mp: Any = importlib.import_module("mpmath")


def fit(
    name: str, function: Callable[[Any], Any], weight: Callable[[Any], Any], low: float, high: float, degree: int
) -> None:
    """Print the coefficients, lowest first, in float32 and the largest weighted error that they leave."""
    nodes = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES) * (high - low) / 2 + (high + low) / 2
    values = np.array([float(function(mp.mpf(x))) for x in nodes])
    weights = np.array([float(weight(mp.mpf(x))) for x in nodes])
    powers = np.vander(nodes, degree + 1, increasing=True)
    scales = weights.copy()
    coefficients, errors = np.zeros(degree + 1), np.zeros(NODES)
    for _ in range(60):  # Lawson: raise the weight where the error is large, until it is level
        coefficients = np.linalg.lstsq(powers * scales[:, None], values * scales, rcond=None)[0]
        errors = np.abs(powers @ coefficients - values) * weights
        scales *= np.sqrt(0.1 + errors / errors.max())
        scales /= scales.max() / weights.max()
    shown = ", ".join(repr(float(np.float32(one))) for one in coefficients)
    print(f"{name} = ({shown})  # {errors.max():.1e}")


def fit_double(name: str, function: Callable[[Any], Any], high: Any, terms: int) -> None:
    """Print the coefficients, lowest first, in float64 and the largest error that they leave from 0 to `high`."""
    coefficients, error = mp.chebyfit(function, [mp.mpf("1e-10"), high], terms, error=True)
    print(f"{name} = ({', '.join(repr(float(one)) for one in reversed(coefficients))})  # {float(error):.1e}")


def fit_places(name: str, function: Callable[[Any], Any], step: Any, degree: int) -> None:
    """Print a table of coefficients around 0, h, 2 h ... 15 h: around 0 those of f(d) - d."""

    def around(k: int) -> list[Any]:
        def less(d: Any) -> Any:
            return function(d) / d - 1

        def whole(d: Any) -> Any:
            return function(k * step + d)

        if k == 0:
            return [mp.mpf(0), *reversed(mp.chebyfit(less, [mp.mpf("1e-10"), step / 2], degree))]
        return list(reversed(mp.chebyfit(whole, [-step / 2, step / 2], degree + 1)))

    rows = [around(k) for k in range(16)]
    table = [tuple(float(np.float32(float(row[power]))) for row in rows) for power in range(degree + 1)]
    print(f"{name} = {table}")


def main() -> None:
    """Fit them all."""
    mp.mp.dps = 60
    most = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
    fit_double("LOG (64)", lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1) * 2 / z, most * 1.0001, 7)
    turned = (mp.pi / 4 * 1.001) ** 2
    fit_double("SIN (64)", lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, turned, 6)
    fit_double("COS (64)", lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2, turned, 6)
    half = float(np.log(2) / 2) * 1.01
    fit("EXP", lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: r**2, -half, half, 4)
    f_low, f_high = 2**-0.5 - 1, 2**0.5 - 1
    fit(
        "LOG",
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
        lambda f: abs(f**3 / mp.log1p(f)),
        f_low,
        f_high,
        8,
    )
    fit(
        "LOG_WIDE",
        lambda f: (mp.log1p(f) - f + f * f / 2) / f**3,
        lambda f: abs(f**3 / mp.log1p(f)),
        -0.25001,
        0.50001,
        8,
    )
    fit_places("ERF", mp.erf, mp.mpf(17) / 64, 6)
    fit_places("TANH", mp.tanh, mp.mpf(39) / 64, 7)
    fit("ERF_SMALL", lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1, lambda s: 1, 1e-12, 0.93**2, 5)
    fit("ERF_LARGE", lambda t: -mp.log(mp.erfc(t)), mp.erfc, 0.92, 4.0, 6)
    quarter = float((np.pi / 4) ** 2) * 1.01
    fit("SIN", lambda s: (mp.sin(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, lambda s: s, 1e-12, quarter, 3)
    fit("TAN", lambda s: (mp.tan(mp.sqrt(s)) / mp.sqrt(s) - 1) / s, lambda s: s, 1e-12, quarter, 6)
    fit("COS", lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2, lambda s: s**2, 1e-12, quarter, 2)


if __name__ == "__main__":
    main()

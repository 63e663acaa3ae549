"""Calls that `record_unlike` records: updates of parameters."""

from __future__ import annotations

import numpy as np

from tools.record_golden import Call, signed
from tools.unlike_extents import AGAIN, FLAT, SOLID, TWO, one_of


def shared_steps() -> list[tuple[str, list[Call]]]:
    """Updates whose step length all elements share, and scales from norms."""
    one, rate = {"b": one_of(4.0)}, {"lr": one_of(-0.5)}
    found: list[tuple[str, list[Call]]] = []
    dense = [({"W": signed(*shape), "g": signed(*shape, seed=1)}, signed(*shape, seed=2)) for shape in (SOLID, FLAT)]
    rows = [
        ({"W": signed(*shape), "g": signed(len(at), *shape[1:], seed=1)}, signed(*shape, seed=2), {"i": at})
        for shape, at in ((SOLID, AGAIN), (FLAT, TWO))
    ]
    calls = [Call({"W": x["W"], **one, "g": x["g"], **rate}, ["W1", "b1", "rate", "step"], {}) for x, _ in dense]
    found.append(("Wngrad", calls))
    calls = [Call({"W": x["W"], **one, **i, "g": x["g"], **rate}, ["W", "b"], {"epsilon": 0.5}) for x, _, i in rows]
    found.append(("SparseWngrad", calls))
    slow = {"momentum": 2.0, "beta": 0.5}
    calls = [Call({"W": x["W"], "M": m, **one, "g": x["g"], **rate}, ["W1", "M1", "s1"], slow) for x, m in dense]
    found.append(("Storm", calls))
    calls = [Call({"W": x["W"], "M": m, **one, "g": x["g"], **i, **rate}, ["W", "M", "b"], slow) for x, m, i in rows]
    found.append(("SparseStorm", calls))
    scales = {"decay": one_of(0.125), "trust": one_of(2), "most": one_of(10)}
    found.append(("Lars", [Call({**x, **scales}, ["rate"], {"offset": 0.25}) for x, _ in dense]))
    above = [Call({"X": x["W"], "norm": one_of(4)}, ["Y"], {"threshold": 1.5}) for x, _ in dense]
    below = Call({"X": dense[0][0]["W"], "norm": one_of(4), "factor": one_of(3)}, ["Y"], {"threshold": 1.5})
    return [*found, ("ClipTensorByScaling", [*above, below])]


def steps_of_rows() -> list[tuple[str, list[Call]]]:
    """Updates of rows with one number for each, leaders that are followed, and rates that adapt."""
    one, iter = {"lr": one_of(-0.5)}, {"iter": np.array([3])}
    rows = [
        (signed(*shape), np.abs(signed(shape[0], seed=3)), at, signed(len(at), *shape[1:], seed=1))
        for shape, at in ((SOLID, AGAIN), (FLAT, TWO))
    ]
    adagrad = [
        Call({"W": W, "M": M, "i": i, "g": g, **one}, ["W", "M"], {"weight_decay": 0.125}) for W, M, i, g in rows
    ]
    adam = [
        Call(
            {"W": W, "M": signed(*W.shape, seed=2), "V": V, "i": i, "g": g, **one, **iter}, ["W", "M", "V", "step"], {}
        )
        for W, V, i, g in rows
    ]
    half = {"counter_halflife": 2}
    counted = [(np.arange(6).reshape(2, 3), AGAIN), (np.arange(28).reshape(4, 7) % 5, TWO)]
    count = [Call({"last": t, "n": t * 0.5, "i": i, **iter}, ["last", "n"], half) for t, i in counted]
    leader = {"alpha": 0.25, "lambda1": 0.5, "lambda2": 0.125}
    state = {W.shape: np.abs(signed(*W.shape, 2, seed=4)) for W, *_ in rows}
    dense = [(W, signed(*W.shape, seed=1)) for W, *_ in rows]
    ftrl = [Call({"W": W, "nz": state[W.shape], "g": g}, ["W1", "nz1"], leader) for W, g in dense]
    of_rows = [Call({"W": W, "nz": state[W.shape], "i": i, "g": g}, ["W", "nz"], leader) for W, _, i, g in rows]
    adapted = [Call({**one, "g": W, "e": g}, ["lr1"], {"lr_alpha": 0.25}) for W, g in dense]
    scaled = [
        Call({"W": W, **iter}, ["Y"], {"stepsize": 2, "upper_bound_iter": 3 + i, "scale": 0.5})
        for i, (W, *_) in enumerate(rows)
    ]
    return [
        ("RowWiseSparseAdagrad", adagrad),
        ("RowWiseSparseAdam", adam),
        ("RowWiseCounter", count),
        ("Ftrl", ftrl),
        ("GFtrl", ftrl),
        ("SparseFtrl", of_rows),
        ("LearningRateAdaption", adapted),
        ("WeightScale", scaled),
    ]


def fused_steps() -> list[tuple[str, list[Call]]]:
    """Adagrad fused with the gradient of segments; the weights say what a place in a segment counts."""
    found: list[tuple[str, list[Call]]] = []
    runs = [
        (SOLID, np.array([1, 0, 1, 1], "i"), np.array([3, 0, 1], "i"), {"epsilon": 0.1}),
        (FLAT, np.array([3, 0, 2, 3, 3]), np.array([2, 3], "i"), {"weight_decay": 0.25, "epsilon": 0.01}),
    ]
    for update in ("SparseAdagrad", "RowWiseSparseAdagrad"):
        for reducer in ("Sum", "Mean", "WeightedSum"):
            calls: list[Call] = []
            for shape, at, lengths, arguments in runs:
                state = shape if update == "SparseAdagrad" else shape[:1]
                inputs = {"W": signed(*shape), "M": np.abs(signed(*state, seed=1))}
                weights = {"w": signed(at.size, seed=2)} if reducer == "WeightedSum" else {}
                rows = {"i": at, "g": signed(lengths.size, *shape[1:], seed=3)}
                inputs = {**inputs, **weights, **rows, "lr": one_of(-0.5), "L": lengths}
                calls.append(Call(inputs, ["W", "M", *(["dw"] if weights else [])], arguments))
            name = f"{update}FusedWithSparseLengths{reducer}Gradient"
            found += [(name, calls), (f"{name}Approx", calls)]
    return found


def tuned_steps() -> list[tuple[str, list[Call]]]:
    """YellowFin at a step that tunes, and at the first one that the window sees; all of its state lies in place."""
    calls: list[Call] = []
    for shape, step, width, arguments in (
        (SOLID, 7, 3, {"curv_win_width": 3, "beta": 0.9, "nesterov": 1}),
        (FLAT, 2, 20, {"zero_debias": 0, "epsilon": 0.01}),
        (FLAT, 1, 20, {}),
    ):
        W, M, g, dW = (signed(*shape, seed=seed) for seed in range(4))
        window = np.abs(signed(width, seed=4))
        averages = np.array([0.5, 0.75, 0.25, 0.5, 0.125], "f")
        state = {"W": W, "M": M, "lr": one_of(0.125), "mu": one_of(0.5), "c": window, "g": g * 0.1, "g2": g * g}
        inputs = {**state, "a": averages, "dW": dW, "iter": np.array([step])}
        calls.append(Call(inputs, [*state, "a"], arguments))
    return [("YellowFin", calls)]

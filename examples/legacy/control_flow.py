"""Branches and loops by NetBuilder: roots by Newton's method, a function with a kink, growth; gradients of both.

python control_flow.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, workspace
from caffe2.python.net_builder import NetBuilder, ops


def root(value: float) -> tuple[float, int]:
    """Find a square root by a loop that ends when the square is near enough; return it, and the rounds it took."""
    workspace.ResetWorkspace()
    with NetBuilder(_use_control_ops=True) as nb:
        ops.Const(value, blob_out="value")
        ops.Const(value, blob_out="root")
        ops.Const(0.5, blob_out="half")
        ops.Const(1e-6, blob_out="enough")
        ops.Const(0, blob_out="rounds")
        ops.Const(1, blob_out="one")
        with ops.WhileNet():
            with ops.Condition():
                ops.Mul(["root", "root"], "square")
                ops.Sub(["square", "value"], "off")
                ops.Abs(["off"], "distance")
                ops.Mul(["enough", "value"], "limit")
                ops.GT(["distance", "limit"])
            ops.Div(["value", "root"], "other")
            ops.Add(["root", "other"], "sum")
            ops.Mul(["sum", "half"], "root")
            ops.Add(["rounds", "one"], "rounds")
    plan = core.Plan("root")
    plan.AddStep(core.to_execution_step(nb))
    workspace.RunPlan(plan)
    return workspace.FetchBlob("root"), workspace.FetchBlob("rounds")


def kinked(x: float) -> tuple[float, float]:
    """Return a function that a branch defines, 3 x above 1 and x squared below, and its derivative."""
    workspace.ResetWorkspace()
    workspace.FeedBlob("x", np.array(x, dtype=np.float32))
    with NetBuilder(_use_control_ops=True, initial_scope=["x"]) as nb:
        ops.Const(1.0, blob_out="kink")
        ops.Const(3.0, blob_out="three")
        ops.Const(0.0, blob_out="y")
        with ops.IfNet(ops.GT(["x", "kink"])):
            ops.Mul(["x", "three"], "y")
        with ops.Else():
            ops.Mul(["x", "x"], "y")
    net = nb.get()[0]
    gradients = net.AddGradientOperators(["y"])
    workspace.RunNetOnce(net)
    return workspace.FetchBlob("y"), workspace.FetchBlob(str(gradients["x"]))


def grown(x: float, times: int) -> tuple[float, float]:
    """Return what a loop makes of a number, half as much again each round, and its derivative through all rounds."""
    workspace.ResetWorkspace()
    workspace.FeedBlob("x", np.array(x, dtype=np.float32))
    with NetBuilder(_use_control_ops=True, initial_scope=["x"]) as nb:
        ops.Copy(["x"], "y")
        ops.Const(times, blob_out="left")
        ops.Const(0, blob_out="none")
        ops.Const(-1, blob_out="less")
        with ops.WhileNet():
            with ops.Condition():
                ops.GT(["left", "none"])
            ops.Scale(["y"], "y", scale=1.5)
            ops.Add(["left", "less"], "left")
    net = nb.get()[0]
    gradients = net.AddGradientOperators(["y"])
    workspace.RunNetOnce(net)
    return workspace.FetchBlob("y"), workspace.FetchBlob(str(gradients["x"]))


def main() -> dict[str, Any]:
    """Run all three; return what they found."""
    found: dict[str, Any] = {}
    for value in (2.0, 9.0, 1234.5):
        found[f"root_{value}"], found[f"rounds_{value}"] = root(value)
    for x in (0.25, 2.5):
        found[f"kinked_{x}"], found[f"slope_{x}"] = kinked(x)
    for times in (1, 4):
        found[f"grown_{times}"], found[f"grown_slope_{times}"] = grown(2.0, times)
    print("the root of 2 is", found["root_2.0"], "after", found["rounds_2.0"], "rounds")
    return found


if __name__ == "__main__":
    main()

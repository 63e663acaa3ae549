"""NegateGradient and ZeroGradient: by what they do to gradients."""

from __future__ import annotations

import numpy as np

from tazza.graph import backward_pass
from tazza.operator import operator_def
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines

X = np.arange(6, dtype=np.float32).reshape(2, 3)
CASES = [
    Case("NegateGradient", [X], X, batched=(0,), gradient=False),
    Case("NegateGradient", [X.astype(np.int32)], X.astype(np.int32), gradient=False, id="whole numbers"),
]


@on_all_engines(CASES)
def test_negate_gradient(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_gradients_change_their_sign_or_become_zero() -> None:
    """Three readers: the second one's gradient is negated; the third one adds 0."""
    ops = [
        operator_def("Scale", ["X"], ["a"], scale=3.0),
        operator_def("NegateGradient", ["X"], ["n"]),
        operator_def("Scale", ["n"], ["b"], scale=5.0),
        operator_def("ZeroGradient", ["X"], []),
        operator_def("ZeroGradient", ["other"], []),
    ]
    made, gradients = backward_pass(ops, {"a": "da", "b": "db"})
    workspace = Workspace()
    for name in ("X", "da", "db", "other"):
        workspace.feed(name, X + 1)
    for op in [*ops, *made]:
        workspace.run_operator(op)
    np.testing.assert_array_equal(workspace.fetch(str(gradients["X"])), (3 - 5) * (X + 1))
    np.testing.assert_array_equal(workspace.fetch(str(gradients["other"])), 0 * X)

"""FusedLSTMUnit in panels: what it gives is what the product, the sum and the unit give one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.native.panel_product.panels import ENGINE
from tazza.operator import LocalBlobs, Operator, operator_def, run_op
from tazza.operator.engine import why_unavailable

pytestmark = pytest.mark.skipif(
    why_unavailable("FusedLSTMUnit", "cpu", ENGINE) is not None, reason="nothing can be compiled here"
)
N, D = 3, 7
GATES = 4 * D


@pytest.mark.slow
@pytest.mark.parametrize("forget_bias", [0.0, 1.5])
def test_it_is_its_parts_also_behind_new_weights(forget_bias: float) -> None:
    random = np.random.default_rng(5)
    shapes = {"W": (GATES, D), "b": (GATES,), "rows": (1, N, GATES), "H": (1, N, D), "C": (1, N, D)}
    given = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    lengths, step = np.array([4, 1, 3], np.int32), np.array([2], np.int32)
    blobs = LocalBlobs()
    for name, array in {**given, "lengths": lengths, "t": step}.items():
        blobs.create_blob(name).put(array)
    names = ["H", "W", "b", "rows", "H", "C", "lengths", "t"]
    definition = operator_def("FusedLSTMUnit", names, ["gates", "h", "c"], engine=ENGINE, forget_bias=forget_bias)
    operator = Operator(definition, blobs)
    for _ in range(2):
        operator.run()
        assert operator.choices[-1].engine == ENGINE
        gates = run_op("FC", given["H"], given["W"], given["b"], engine="reference", axis=2) + given["rows"]
        unit = run_op(
            "LSTMUnit", given["H"], given["C"], gates, lengths, step, engine="reference", forget_bias=forget_bias
        )
        for name, wanted in zip(("gates", "h", "c"), (gates, *unit), strict=True):
            np.testing.assert_allclose(blobs.blobs[name].tensor().plain(), wanted, rtol=2e-5, atol=2e-6)
        given["W"] = given["W"][::-1] * np.float32(0.5)
        blobs.blobs["W"].put(given["W"])

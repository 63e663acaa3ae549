"""InferenceLSTM in panels: weights that were written since are read anew, and sequences know nothing of each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.engines.native.panel_product.panels import ENGINE
from tazza.operator import LocalBlobs, Operator, operator_def
from tazza.operator.engine import why_unavailable
from tests.ops.recurrent.test_inference_lstm import by_unit, inputs

pytestmark = pytest.mark.skipif(
    why_unavailable("InferenceLSTM", "cpu", ENGINE) is not None, reason="nothing can be compiled here"
)


@pytest.mark.slow
def test_weights_that_were_written_are_read_anew() -> None:
    given = inputs(2, 2, biases=True)
    names = [f"in{i}" for i in range(len(given))]
    options: dict[str, Any] = {"num_layers": 2, "bidirectional": 1, "has_biases": 1}
    definition = operator_def("InferenceLSTM", names, ["Y", "hidden", "cell"], engine=ENGINE, **options)
    blobs = LocalBlobs()
    for name, array in zip(names, given, strict=True):
        blobs.create_blob(name).put(array)
    operator = Operator(definition, blobs)
    for turn in range(3):
        operator.run()
        assert operator.choices[-1].engine == ENGINE
        for name, wanted in zip(definition.output, by_unit(given, 2, 2, biases=True), strict=True):
            np.testing.assert_allclose(blobs.blobs[name].tensor().plain(), wanted, rtol=1e-5, atol=1e-6)
        given[3 + turn] = given[3 + turn][::-1] * np.float32(0.5)
        blobs.blobs[names[3 + turn]].put(given[3 + turn])

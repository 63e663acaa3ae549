"""GRUUnit and its gradient, as units of a step."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.block import accepts_rows_but
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.recurrent.lstm_unit import Unit, unit_launch
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.recurrent.gru_unit import GRU_UNIT, GRU_UNIT_GRADIENT

FORWARD = Unit(
    ("r", "u", "o"),
    {"s": "sigmoid(u)", "H": "s * H_prev + (1 - s) * tanh(o)"},
    ("H_prev",),
    ("H",),
    {"H": "H_prev"},
)
BACKWARD = Unit(
    FORWARD.gates,
    {
        "s": "sigmoid(u)",
        "T": "tanh(o)",
        "dH_prev": "dH * s",
        "dr": "0",
        "du": "dH * (H_prev - T) * s * (1 - s)",
        "do": "dH * (1 - s) * (1 - T * T)",
    },
    ("H_prev", "dH"),
    ("dH_prev",),
    {"dH_prev": "dH"},
)


@launcher(GRU_UNIT, engine=KIND, device=KIND, accepts=accepts_rows_but({"timestep"}))
def prepare_gru_unit(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile GRUUnit."""
    del context, outputs
    return unit_launch(op, inputs, FORWARD)


@launcher(GRU_UNIT_GRADIENT, engine=KIND, device=KIND, accepts=accepts_rows_but({"timestep"}))
def prepare_gru_unit_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile GRUUnitGradient."""
    del context, outputs
    return unit_launch(op, inputs, BACKWARD)

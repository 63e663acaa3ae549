"""GRUUnit and its gradient, as units of a step."""

from __future__ import annotations

from tazza.engines.cuda.recurrent.lstm_unit import Unit, register_unit
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
register_unit(GRU_UNIT, FORWARD, __name__)
register_unit(GRU_UNIT_GRADIENT, BACKWARD, __name__)

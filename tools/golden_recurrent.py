"""Further cases for `record_golden`: steps of LSTMs, and what puts rows of blobs into steps.

python3.8 -m tools.golden_recurrent [FOLDER [TYPE ...]]
"""

from __future__ import annotations

from typing import Any

from tools.record_golden import Call, labels, main, signed


def links() -> list[tuple[str, list[Call]]]:
    """What puts rows of blobs into a step, and adds gradients of rows, as the nets of steps have it at run time."""
    rows = {"timestep": labels(1), "external": signed(4, 3, 2)}
    both = ["internal", "external"]
    sums = {"timestep": labels(2), "given": signed(4, 3, 2), "gradients": signed(6, 3, 2, seed=1)}
    return [
        (
            "rnn_internal_apply_link",
            [Call(rows, both, {"offset": first, "window": count}) for first, count in ((0, 1), (1, 2))],
        ),
        ("rnn_internal_accumulate_gradient_input", [Call(sums, ["gradients"], {"offset": n}) for n in (0, 3)]),
    ]


def marks() -> list[tuple[str, list[Call]]]:
    """What does nothing, and has a gradient."""
    return [("ZeroGradient", [Call({"X": signed(4, 3)}, [], {})])]


def steps_of_lstm() -> list[tuple[str, list[Call]]]:
    """LSTMUnit and its gradient: sequences that have ended, with and without their states, and none with lengths."""
    state = {"H_prev": signed(1, 5, 3), "C_prev": signed(1, 5, 3, seed=1), "gates": signed(1, 5, 12, seed=2)}
    lengths, step = {"seq_lengths": labels(0, 4, 2, 1, 3)}, {"timestep": labels(2)}
    back = {letter: signed(1, 5, 3, seed=3 + i) for i, letter in enumerate(("H", "C", "dH", "dC"))}
    arguments: list[dict[str, Any]] = [{}, {"drop_states": 1}, {"forget_bias": 1.5}]
    ragged, even = {**state, **lengths, **step}, {**state, **step}
    last = {"forget_bias": -0.5, "sequence_lengths": 0}
    slopes = ["dH_prev", "dC_prev", "dgates"]
    return [
        ("LSTMUnit", [*(Call(ragged, ["H", "C"], args) for args in arguments), Call(even, ["H", "C"], last)]),
        (
            "LSTMUnitGradient",
            [*(Call({**ragged, **back}, slopes, args) for args in arguments), Call({**even, **back}, slopes, last)],
        ),
    ]


if __name__ == "__main__":
    main([steps_of_lstm, links, marks])

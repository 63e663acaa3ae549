"""Recurrent layers on random sequences, for tests of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from caffe2.python import scope, workspace
from caffe2.python.model_helper import ModelHelper


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent."""
    return 2.0 * sigmoid(2.0 * x) - 1


def _prepare_rnn(  # pyright: ignore[reportUnusedFunction] -- tests import it
    t: int,
    n: int,
    dim_in: int,
    create_rnn: Callable[..., Any],
    outputs_with_grads: Sequence[int],
    forget_bias: float,
    memory_optim: bool = False,
    forward_only: bool = False,
    drop_states: bool = False,
    T: int | None = None,
    two_d_initial_states: bool | None = None,
    dim_out: list[int] | None = None,
    num_states: int = 2,
    **kwargs: Any,
) -> tuple[Any, Any, list[Any]]:
    """Build layers for sequences (t, n, dim_in), feed their initial states and lengths, and make their parameters.

    Returns:
        What `create_rnn` returned, the net, and its inputs: all states, and the sequences, which nobody fed yet.
    """
    sizes = [dim_in] if dim_out is None else dim_out
    print("Dims: ", t, n, dim_in, sizes)
    model = ModelHelper(name="external")
    flat = bool(np.random.randint(2)) if two_d_initial_states is None else two_d_initial_states
    states: list[Any] = []
    for layer, size in enumerate(sizes):
        for number in range(num_states):
            states.append(model.net.AddExternalInput(f"state_{number}/layer_{layer}"))
            first = np.random.randn(*((n, size) if flat else (1, n, size)))
            workspace.FeedBlob(states[-1], first.astype(np.float32))
    with scope.NameScope("test_name_scope"):
        sequences, lengths = model.net.AddScopedExternalInputs("input_blob", "seq_lengths")
        outputs = create_rnn(
            model,
            sequences,
            lengths,
            states,
            dim_in=dim_in,
            dim_out=sizes,
            scope="external/recurrent",
            outputs_with_grads=outputs_with_grads,
            memory_optimization=memory_optim,
            forget_bias=forget_bias,
            forward_only=forward_only,
            drop_states=drop_states,
            static_rnn_unroll_size=T,
            **kwargs,
        )
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob(lengths, np.random.randint(1, t + 1, size=(n,)).astype(np.int32))
    return outputs, model.net, [*states, sequences]

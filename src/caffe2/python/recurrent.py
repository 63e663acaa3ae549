"""A cell's net run over a sequence: the operator RecurrentNetwork, and what its steps left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from caffe2.python import core, workspace
from tazza.ops.recurrent.backward_step import with_backward
from tazza.ops.recurrent.over_sequence import Carried, over_sequence


def recurrent_net(
    net: Any,
    cell_net: Any,
    inputs: Sequence[tuple[Any, Any]],
    initial_cell_inputs: Sequence[tuple[Any, Any]],
    links: Mapping[Any, Any],
    timestep: Any = None,
    scope: Any = None,
    outputs_with_grads: Sequence[int] = (0,),
    recompute_blobs_on_backward: Iterable[Any] | None = None,
    forward_only: bool = False,
) -> Any:
    """Add what runs `cell_net` for each row of a sequence; return for each state all values, and the last one.

    Args:
        net: gets the operator.
        cell_net: one step.
        inputs: one pair: the blob of a step that is its row, and the blob of all rows, (T, N, ...).
        initial_cell_inputs: for each state the blob of a step that is its value before, and its initial value.
        links: the former -> the blob that is its value after the step.
        timestep: the blob of a step with its number, "timestep" if None.
        scope: prefix of the blobs that hold states over time.
        outputs_with_grads: the outputs that get gradients from outside.
        recompute_blobs_on_backward: blobs of a step that are made again in the backward pass.
        forward_only: there is no backward pass.

    Raises:
        GradientError: a step has no gradient.
        ArgumentError: an operator makes some blobs that are made again, and some that are not.
    """
    assert len(inputs) == 1, "Only one input blob is supported so far"
    row, rows = str(inputs[0][0]), _outside(inputs[0][1])
    after = {str(before): str(blob) for before, blob in links.items()}
    states = [Carried(str(before), after[str(before)], _outside(first)) for before, first in initial_cell_inputs]
    generated = net.NextName("recurrent")
    recurrence, read, written = over_sequence(
        cell_net.Proto(),
        (row, rows),
        states,
        f"{generated if scope is None else scope}/",
        "timestep" if timestep is None else str(timestep),
    )
    written[-1] = _outside(written[-1])
    if not forward_only:
        again = [str(blob) for blob in recompute_blobs_on_backward or ()]
        recurrence = with_backward(recurrence, read, outputs_with_grads, again)
    cell_net.Proto().type = recurrence.step.type
    given, made = map(core.BlobReference, read), map(core.BlobReference, written)
    return net.RecurrentNetwork(list(given), list(made), **recurrence.arguments())[:-1]


def _outside(blob: Any) -> str:
    """Return the name of a blob of the net itself; a text gets the current scope in front."""
    return str(core.ScopedBlobReference(blob)) if isinstance(blob, str) else str(blob)


def set_rnn_executor_config(rnn_op: Any, num_threads: int | None = None, max_cuda_streams: int | None = None) -> None:
    """Say how many threads, or streams of a GPU, run steps side by side; an argument each."""
    assert rnn_op.type in {"RecurrentNetwork", "RecurrentNetworkGradient"}
    for name, value in (("num_threads", num_threads), ("max_cuda_streams", max_cuda_streams)):
        if value is not None:
            rnn_op.arg.add(name=f"rnn_executor.{name}", i=value)


def retrieve_step_blobs(net: Any, prefix: str = "rnn") -> list[Any]:
    """Copy what each step of a net's recurrent operators left into the workspace; return the names of the copies."""
    found: list[Any] = []
    recurrent = [op for op in net.Proto().op if op.type == "RecurrentNetwork"]
    for number, op in enumerate(recurrent, 1):
        names = f"{prefix}_{number}"
        fetcher = core.CreateOperator("RecurrentNetworkBlobFetcher", [op.output[-1]], [names], prefix=prefix)
        workspace.RunOperatorOnce(fetcher)
        found += workspace.FetchBlob(names).tolist()
    return found

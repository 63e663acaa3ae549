"""Gradients of a state over time: where they begin, behind the last step, and what is left of them before the first."""

from __future__ import annotations

import numpy as np

from tazza.errors import NotFoundError
from tazza.operator import BlobOwner, OpView, show_dims
from tazza.ops.recurrent.recurrence import StateGradient, initial_rows
from tazza.ops.recurrent.room import room, write
from tazza.ops.recurrent.step import lay_on, view_rows
from tazza.tensor import Blob, Tensor


def begin_gradients(op: OpView, owner: BlobOwner, each: StateGradient) -> None:
    """Make room for the gradients of a state, of which the last one is what its outputs were given in sum.

    Raises:
        ShapeError: a gradient that was given is not one row of the state.
    """
    states = tensor_of(owner, each.state.states)
    gradients = room(owner.create_blob(each.gradients), tuple(states.shape), states.dtype, states.place)
    last = view_rows(gradients, int(states.shape[0]) - 1, 1, each.gradients)
    sums = np.zeros(tuple(last.shape), last.dtype.numpy)
    for name in each.given_last:
        given = tensor_of(owner, name)
        relation = f"gradient {name!r} has the shape {show_dims(tuple(given.shape))}"
        op.require(given.size == last.size, f"{relation}, one row of the state {show_dims(sums.shape)}")
        sums += given.plain().reshape(sums.shape)
    write(last, sums)


def finish_gradients(owner: BlobOwner, each: StateGradient, target: Blob) -> None:
    """Give the gradient of the initial value of a state: that of its first rows."""
    gradients, initial = owner.create_blob(each.gradients).tensor(), tensor_of(owner, each.state.initial)
    dims = tuple(initial.shape)
    if len(dims) > 1:
        first = view_rows(gradients, 0, initial_rows(dims), target.name)
        lay_on(target, first.view(dims))
        return
    # one value for all sequences
    write(room(target, dims, initial.dtype, initial.place), np.sum(gradients.plain()[0], axis=0))


def tensor_of(owner: BlobOwner, name: str) -> Tensor:
    """Return the tensor of a blob.

    Raises:
        NotFoundError: there is none of that name.
    """
    found = owner.get_blob(name)
    if found is None:
        raise NotFoundError(f"blob {name!r} does not exist", hint="run the forward operator first")
    return found.tensor()

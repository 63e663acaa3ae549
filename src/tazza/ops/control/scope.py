"""Workspaces of one operator that outlive its run: CreateScope, HasScope, and the stack that `Do` puts them on.

A run of `Do` pushes a *scope*: blobs of its own, over those of the operator's workspace that are bound to names of its
net. The scope stays, so that the gradient of that run finds what the net made; the gradient takes it from the stack.
Loops push a scope for each round. `CreateScope` begins anew: the scopes that are there, and the nets that were made in
them, are used again from the first one on.

A scope is seen in two ways, each with its bindings: `forward`, and `backward`, which sees what the forward net made
and has copies of bound tensors, where the forward operator was told to keep them (`copy_external_blobs`), since the
next round of a loop overwrites these.
"""

from __future__ import annotations

from collections.abc import Mapping

from tazza.operator import BlobOwner, Effects, LocalBlobs, Role, RunnableNet, blob, forbidden, host_kernel, schema
from tazza.tensor import Blob, DataType, Tensor
from tazza.tensor.blob import blob_type

SCOPES = "caffe2::detail::WorkspaceStack"


class Scope:
    """One run of a `Do`; see the module. `nets` are those that ran in it, by who made them."""

    def __init__(self, owner: BlobOwner) -> None:
        """Be empty, in the folder of `owner`."""
        self.forward = LocalBlobs(owner.root)
        self.backward = LocalBlobs(owner.root, parent=self.forward)
        self.nets: dict[object, RunnableNet] = {}

    def bind(self, owner: BlobOwner, names: Mapping[str, str]) -> LocalBlobs:
        """Let names of a forward net stand for blobs of `owner`."""
        self.forward.forwarded.clear()
        self.forward.forward(owner, names)
        return self.forward

    def bind_gradient(self, owner: BlobOwner, names: Mapping[str, str]) -> LocalBlobs:
        """Let names of a gradient net stand for blobs of `owner`, but those that the scope itself has."""
        self.backward.forward(owner, names, but={*self.forward.blobs, *self.backward.blobs})
        return self.backward

    def keep(self) -> None:
        """Copy the tensors that are bound, for the gradient."""
        for name in self.forward.forwarded:
            found = self.forward.get_blob(name)
            if found is not None and isinstance(found.value, Tensor) and found.value.allocated:
                kept = self.backward.blobs.setdefault(name, Blob(name))
                kept.tensor().assign(found.value.plain())


@blob_type(SCOPES)
class ScopeStack:
    """Scopes that are taken in turn: the first `depth` are in use, those above are kept for the next time."""

    def __init__(self) -> None:
        """Have no scope."""
        self._scopes: list[Scope] = []
        self.depth = 0

    def push(self, owner: BlobOwner) -> Scope:
        """Take the next scope into use, made on first use."""
        if self.depth == len(self._scopes):
            self._scopes.append(Scope(owner))
        self.depth += 1
        return self._scopes[self.depth - 1]

    def top(self) -> Scope | None:
        """Return the last scope in use, or None."""
        return self._scopes[self.depth - 1] if self.depth else None

    def clear(self) -> None:
        """Take none into use any more."""
        self.depth = 0


CREATE_SCOPE = schema(
    "CreateScope",
    """scope = a stack of scopes with none in use, for `Do`.

    A stack that is there is emptied; what its scopes hold in memory is used again.""",
    outputs=[blob("scope", type_name=SCOPES)],
    effects=Effects.STATE,
    no_gradient=forbidden("a stack of scopes is no tensor"),
    source="Caffe2",
)


@host_kernel(CREATE_SCOPE)
def create_scope(scope: Blob) -> None:
    if isinstance(scope.value, ScopeStack):
        scope.value.clear()
    else:
        scope.set(ScopeStack())


HAS_SCOPE = schema(
    "HasScope",
    "Y = whether a scope of the stack is in use: rounds of a loop whose gradient is yet to come.",
    inputs=[blob("scope", type_name=SCOPES, role=Role.STATE)],
    outputs=[blob("Y", DataType.BOOL, "1")],
    effects=Effects.STATE,
    no_gradient=forbidden("it counts scopes"),
    source="Caffe2",
)


@host_kernel(HAS_SCOPE)
def has_scope(scope: Blob, Y: Blob) -> None:
    Y.tensor().resize((1,), DataType.BOOL)
    Y.tensor().array[...] = scope.get(ScopeStack).depth > 0

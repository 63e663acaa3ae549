"""Running the net of one step: a workspace for each step, and blobs in it that lie on rows of blobs outside.

A `Steps` is the nets of one operator and has a `StepState` for each workspace that the net ran in. Constant state: net,
links. Changing state: the nets, made on first use, and the views that links are. A view is made anew only where the
blob outside has moved, or the workspace serves another step; so from its second run on a step is one bound section.

What the net leaves elsewhere than in a view (in a layout of its own, say) is copied to where the view was. Of several
links of one blob the first is the view; after the step the others get copies.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.operator import BlobOwner, LocalBlobs, Operator, OpView, OwnedNets, RunnableNet, show_dims, touched_by
from tazza.operator.bound_section import Standing
from tazza.ops.recurrent.joined_step import joined
from tazza.ops.recurrent.loop import Loop
from tazza.ops.recurrent.recurrence import Link, declare_inputs, initial_rows
from tazza.ops.recurrent.room import room, write
from tazza.proto import NetDef
from tazza.tensor import Blob, DataType, Storage, Tensor, TensorSpec
from tazza.tensor.blob import blob_type

SCRATCH = "caffe2::detail::ScratchWorkspaces"


class StepWorkspaces:
    """What the steps of a recurrent net leave for its gradient: a workspace for each, and one that all of them see."""

    __slots__ = ("shared", "steps")

    def __init__(self) -> None:
        """Begin without any."""
        self.shared: LocalBlobs | None = None
        self.steps: list[LocalBlobs] = []

    def reserve(self, owner: BlobOwner, count: int) -> list[LocalBlobs]:
        """Return at least `count` workspaces; other operators may have made some, or want more."""
        if self.shared is None:
            self.shared = owner.child()
        while len(self.steps) < count:
            self.steps.append(self.shared.child())
        return self.steps


blob_type(SCRATCH)(StepWorkspaces)


def own_blob(blobs: LocalBlobs, name: str) -> Blob:
    """Return the blob of that name in this very workspace, whatever is outside of it."""
    return blobs.blobs.setdefault(name, Blob(name))


@dataclass(slots=True)
class Joint:
    """A link in one workspace, with what its view was made of when it was made last.

    `written`: the net writes the blob inside before it reads it. `loose`: it does so elsewhere than in the view.
    """

    link: Link
    external: Blob
    internal: Blob
    written: bool
    row: int = -1
    outer: Tensor | None = None
    spec: TensorSpec | None = None
    storage: Storage | None = None
    generation: int = -1
    view: Tensor | None = None
    view_spec: TensorSpec | None = None
    loose: bool = False

    def connect(self, step: int) -> None:
        """Let the blob inside lie on the rows of this step.

        Raises:
            ShapeError: there are no such rows.
        """
        row = step + self.link.offset
        if not self._stands(row):
            self._make(row)
        view = self.view
        spec = self.view_spec
        if not self.written and view is not None and spec is not None and view.spec is not spec:
            view.resize_to(spec)  # an operator gave it another shape in place

    def _stands(self, row: int) -> bool:
        outer, view = self.outer, self.view
        return (
            row == self.row
            and outer is not None
            and view is not None
            and self.external.value is outer
            and outer.spec is self.spec
            and outer.storage is self.storage
            and outer.storage.generation == self.generation
            and (self.loose or (self.internal.value is view and view.storage is self.storage))
        )

    def _make(self, row: int) -> None:
        outer = self.external.tensor()
        outer.make_plain()
        view = view_rows(outer, row, self.link.window, self.link.internal)
        self.row, self.outer, self.spec, self.storage = row, outer, outer.spec, outer.storage
        self.generation, self.view, self.view_spec = outer.storage.generation, view, view.spec
        if not (self.loose and self.written):
            self.internal.set(view)

    def settle(self) -> None:
        """Bring what the net wrote elsewhere to where the view was."""
        value, view = self.internal.value, self.view
        assert view is not None, "the step was connected"
        if value is view and view.storage is self.storage:
            return
        assert self.outer is not None
        target = view_rows(self.outer, self.row, self.link.window, self.link.internal)
        copy_rows(self.internal.tensor(), target, self.link.internal)
        self.view, self.view_spec, self.loose = target, target.spec, True


def view_rows(tensor: Tensor, first: int, count: int, name: str) -> Tensor:
    """Return a view of rows of a tensor.

    Raises:
        ShapeError: it has no such rows.
    """
    dims = tuple(tensor.shape)
    if not dims or first < 0 or first + count > dims[0]:
        raise ShapeError(
            f"blob {name!r} is linked to rows [{first}, {first + count}) of a tensor of shape {dims}",
            hint="look at link_offset and link_window, and whether each step writes what it must",
        )
    size = int(np.prod(dims[1:], dtype=np.int64))
    return tensor.view((count, *dims[1:]), offset=first * size)


def copy_rows(source: Tensor, target: Tensor, name: str) -> None:
    """Copy elements, of any layout, to a tensor that has as many.

    Raises:
        ShapeError: it has not.
    """
    if source.size != target.size:
        raise ShapeError(
            f"blob {name!r} has the shape {tuple(source.shape)}, its link has room for {tuple(target.shape)}"
        )
    write(target, source.plain().reshape(tuple(target.shape)))


def begin_state(op: OpView, states: Blob, initial: Blob, T: int, N: int) -> None:
    """Make room for a state over time where its initial value lies, and put that there.

    Raises:
        ShapeError: the initial value is not (D), (N, D) or (L, N, D).
    """
    value = initial.tensor()
    dims: tuple[int, ...] = tuple(value.shape)
    op.require(1 <= len(dims) <= 3, f"initial state {initial.name!r} has rank {len(dims)}, it must have 1 to 3")
    if len(dims) > 1:
        relation = f"initial state {initial.name!r} has the shape {show_dims(dims)}, X has N = {N} sequences"
        op.require(dims[-2] == N, relation, "it must be (D), (N, D) or (L, N, D)")
    L = initial_rows(dims)
    state = room(states, (T + L, N, *dims[-1:]), value.dtype, value.place)
    state.make_plain()
    write(view_rows(state, 0, L, states.name), value.plain())


def lay_on(target: Blob, rows: Tensor) -> None:
    """Let a blob lie on the rows of another one; what lies there already stays the same object."""
    value = target.value
    if (
        isinstance(value, Tensor)
        and value.storage is rows.storage
        and value.offset_bytes == rows.offset_bytes
        and value.spec == rows.spec
    ):
        return
    target.set(rows)


def like_zero(blob: Blob, like: Tensor) -> None:
    """Give a blob the shape, dtype and place of a tensor, and zeros."""
    tensor = room(blob, tuple(like.shape), like.dtype, like.place)
    write(tensor, np.zeros((), like.dtype.numpy))


class StepState:
    """The net in one workspace."""

    def __init__(self, steps: Steps, blobs: LocalBlobs, shared: LocalBlobs, home: LocalBlobs) -> None:
        """Make the blobs that are the workspace's own, its home's, and shared ones; the first run makes the net."""
        self.blobs = blobs
        self._steps = steps
        self._time = own_blob(blobs, steps.timestep)
        self._net: RunnableNet | None = None
        joined: dict[str, Joint] = {}
        self._copies: list[Joint] = []
        for name in steps.made:
            own_blob(shared if name in steps.shared else home, name)
        outside = steps.operator.workspace
        for link in steps.links:
            external = outside.create_blob(link.external)
            joint = Joint(link, external, own_blob(blobs, link.internal), link.internal in steps.made)
            if link.internal in joined:
                self._copies.append(joint)
            else:
                joined[link.internal] = joint
        self._joints = list(joined.values())
        self._settled = [joint for joint in self._joints if joint.link.internal in steps.touched.writes]

    def run(self, number: int) -> None:
        """Run step `number`.

        Raises:
            TazzaError: a link has no rows there, or the net failed.
        """
        self._set_time(number)
        for joint in self._joints:
            joint.connect(number)
        if self._net is None:
            self._net = self._steps.make(self._steps.joined(self.blobs), self.blobs)
        self._net.run()
        for joint in self._settled:
            joint.settle()
        for joint in self._copies:
            outer = joint.external.tensor()
            outer.make_plain()
            target = view_rows(outer, number + joint.link.offset, joint.link.window, joint.link.internal)
            copy_rows(joint.internal.tensor(), target, joint.link.internal)

    @property
    def outside(self) -> list[Blob] | None:
        """The blobs whose rows it lies on; None where a step has to move or copy something by itself."""
        plain = all(
            not joint.loose and joint.view is not None and joint.view.spec is joint.view_spec for joint in self._joints
        )
        if self._copies or not plain or self._steps.timestep in self._steps.touched.writes:
            return None
        return [joint.external for joint in self._joints]

    def standing(self) -> Standing | None:
        """Return what its net is bound to, if that is nothing but native calls."""
        return None if self._net is None else self._net.standing()

    def show(self, other: LocalBlobs) -> None:
        """Let another workspace have what this step left on rows outside, and its number."""
        for name in (self._steps.timestep, *(joint.link.internal for joint in self._joints)):
            own_blob(other, name).set(own_blob(self.blobs, name).value)

    def _set_time(self, number: int) -> None:
        tensor = self._time.tensor()
        if tensor.dtype is not DataType.INT32 or tuple(tensor.shape) != (1,):
            tensor.resize((1,), DataType.INT32)
        array = tensor.array
        if array[0] != number:
            array[0] = number
            tensor.mark_written()

    def close(self) -> None:
        """End the net."""
        if self._net is not None:
            self._net.close()


class Steps(OwnedNets):
    """See the module; its nets are those of the workspaces that are in use."""

    def __init__(
        self,
        operator: Operator,
        definition: NetDef,
        links: Sequence[Link],
        timestep: str,
        *,
        shared: Collection[str] | None = None,
    ) -> None:
        """Take a net that runs in order.

        Args:
            operator: whose net it is.
            definition: the net; blobs outside that it reads are added to its external inputs.
            links: of its blobs.
            timestep: the blob with the number of the step.
            shared: which of the blobs that it makes have one memory for all steps; None: all but linked ones.
        """
        super().__init__(operator)
        self.operator = operator
        self.definition = definition
        self.links = tuple(links)
        self.timestep = timestep
        self.touched = touched_by(definition)
        declare_inputs(definition, self.touched.reads)
        read = frozenset(self.touched.reads)
        self.made = tuple(name for name in self.touched.writes if name not in read)
        linked = {link.internal for link in self.links}
        self.shared = frozenset(self.made if shared is None else shared) - linked
        self._steps: dict[int, StepState] = {}  # by workspace, which each of them keeps alive
        self._loop: tuple[list[tuple[StepState, int]], Loop] | None = None
        self._joined: NetDef | None = None

    def joined(self, blobs: LocalBlobs) -> NetDef:
        """Return the net as it runs; what the first workspace holds before its first step decides for all."""
        if self._joined is None:

            def spec_of(name: str) -> TensorSpec | None:
                blob = blobs.get_blob(name)
                return blob.value.spec if blob is not None and isinstance(blob.value, Tensor) else None

            self._joined = joined(self.definition, self.links, spec_of)
        return self._joined

    def of(self, blobs: LocalBlobs, shared: LocalBlobs, home: LocalBlobs | None = None) -> StepState:
        """Return the step of a workspace; `shared` is one that it sees, `home` one that blobs without links live in."""
        found = self._steps.get(id(blobs))
        if found is None:
            found = self._steps[id(blobs)] = StepState(self, blobs, shared, blobs if home is None else home)
        return found

    def run(self, steps: list[tuple[StepState, int]]) -> None:
        """Run steps with their numbers, in their order.

        Raises:
            TazzaError: as `StepState.run`.
        """
        if self._loop is not None and self._loop[0] == steps and self._loop[1].stands():
            self._loop[1].run(self.operator)
            return
        self._loop = None
        for state, number in steps:
            state.run(number)
        loop = self._as_loop([state for state, _ in steps])
        if loop is not None:
            self._loop = steps, loop

    def _as_loop(self, states: Sequence[StepState]) -> Loop | None:
        if len(set(map(id, states))) < len(states):
            return None  # one workspace serves several steps: what it is bound to is the last of them
        outside: dict[int, Blob] = {}
        each: list[Standing] = []
        for state in states:
            bound, outer = state.standing(), state.outside
            if bound is None or outer is None:
                return None
            each.append(bound)
            outside.update((id(blob), blob) for blob in outer)
        return Loop.of(each, list(outside.values())) if len(each) > 1 else None

    def keep(self, workspaces: Collection[LocalBlobs]) -> None:
        """End the nets of all workspaces but these: the others are gone, or no longer asked for."""
        for number in self._steps.keys() - set(map(id, workspaces)):
            self._loop = None
            self._steps.pop(number).close()

    def close(self) -> None:
        """End all nets, and forget the workspaces."""
        super().close()
        self._loop = None
        self._steps.clear()

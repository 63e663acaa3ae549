"""Where the blobs of an operator have to lie: checked before a kernel gets their addresses."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.errors import PlaceError
from tazza.operator.view import OpView
from tazza.tensor import Blob, Place, Tensor, TensorSpec, TypeSpec


def reaches(place: Place, other: Place) -> bool:
    """Whether kernels that work on memory of `place` may be given addresses of `other`.

    >>> reaches(Place.parse("cpu"), Place.parse("pinned")), reaches(Place.parse("cuda:0"), Place.parse("cuda:1"))
    (True, False)
    """
    return place == other or (place.is_host and other.is_host)


def check_places(op: OpView, inputs: Sequence[TensorSpec | TypeSpec], place: Place) -> None:
    """Check that every input lies where the kernels of an operator that runs on `place` look for it.

    Operators whose schema says `inputs_can_cross_devices` take their inputs from anywhere.

    Raises:
        PlaceError: one does not; the hint names the operator that copies it there.
    """
    found = [spec.place if isinstance(spec, TensorSpec) else None for spec in inputs]
    _check_reach(op, found, op.schema.infer_places(op, place)[0])


def place_host_work(op: OpView, inputs: Sequence[Blob], outputs: Sequence[Blob], place: Place) -> None:
    """Let tensors that host work makes lie where its operator stands, unless the schema says that it is the host.

    What host work reads may lie anywhere, but for what the schema has on the host.

    Raises:
        PlaceError: that lies elsewhere.
    """
    schema = op.schema
    wanted, places = schema.infer_places(op, place)
    found = [blob.value.place if isinstance(blob.value, Tensor) else None for blob in inputs]
    _check_reach(op, [at if where.is_host else None for at, where in zip(found, wanted, strict=True)], wanted)
    for letter, blob, where in zip(op.output_letters, outputs, places, strict=True):
        if schema.outputs_by_letter[letter].type_name is None and blob.name not in op.definition.input:
            value = blob.value
            if not isinstance(value, Tensor) or value.place != where:
                blob.set(Tensor((0,), place=where, holder=blob.name))


def _check_reach(op: OpView, found: Sequence[Place | None], wanted: Sequence[Place]) -> None:
    """Check where inputs lie (None: it does not matter), unless the schema takes them from anywhere."""
    if op.schema.inputs_can_cross_devices:
        return
    for letter, name, at, where in zip(op.input_letters, op.definition.input, found, wanted, strict=True):
        if at is not None and not reaches(where, at):
            raise misplaced(f"{op.type} reads {letter} = {name!r}", at, where)


def misplaced(what: str, found: Place, wanted: Place) -> PlaceError:
    """Return the error for a blob that lies elsewhere than it has to."""
    copier, device = ("EnsureCPUOutput", found) if wanted.is_host else ("Copy", wanted)
    if found.is_host:
        copier = "CopyFromCPUInput"
    return PlaceError(
        f"{what}, which lies at {found}, but is read at {wanted}",
        hint=f"copy it there first: {copier} with the device option of {device}",
    )

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
    schema = op.schema
    if schema.inputs_can_cross_devices:
        return
    wanted, _ = schema.infer_places(op, place)
    for letter, name, spec, where in zip(op.input_slots, op.definition.input, inputs, wanted, strict=True):
        if isinstance(spec, TensorSpec) and not reaches(where, spec.place):
            raise misplaced(f"{schema.type} reads {letter} = {name!r}", spec.place, where)


def place_host_work(op: OpView, inputs: Sequence[Blob], outputs: Sequence[Blob], place: Place) -> None:
    """Let tensors that host work makes lie where its operator stands, unless the schema says that it is the host.

    What host work reads may lie anywhere, but for what the schema has on the host.

    Raises:
        PlaceError: that lies elsewhere.
    """
    schema = op.schema
    wanted, places = schema.infer_places(op, place)
    for letter, blob, where in zip(op.input_slots, inputs, wanted, strict=True):
        if where.is_host and isinstance(blob.value, Tensor) and not blob.value.place.is_host:
            raise misplaced(f"{schema.type} reads {letter} = {blob.name!r}", blob.value.place, where)
    for letter, blob, where in zip(op.output_slots, outputs, places, strict=True):
        if schema.outputs_by_letter[letter].type_name is None and blob.name not in op.definition.input:
            value = blob.value
            if not isinstance(value, Tensor) or value.place != where:
                blob.set(Tensor((0,), place=where, holder=blob.name))


def misplaced(what: str, found: Place, wanted: Place) -> PlaceError:
    """Return the error for a blob that lies elsewhere than it has to."""
    copier, device = ("EnsureCPUOutput", found) if wanted.is_host else ("Copy", wanted)
    if found.is_host:
        copier = "CopyFromCPUInput"
    return PlaceError(
        f"{what}, which lies at {found}, but is read at {wanted}",
        hint=f"copy it there first: {copier} with the device option of {device}",
    )

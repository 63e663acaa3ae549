"""Operators whose images go their own ways (`OpSchema.batched`), and kernels that shall give each the same bits.

Libraries take another algorithm, another order of additions or another split for another number of rows. Where a net
is `batch_invariant`, an engine is asked for one image, whatever the batch: so the choice cannot depend on the others.
A kernel that declares that what it answers is `batch_invariant` may then take the whole batch at once; any other one
runs for one image after the other, with the launch that an image alone gets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tazza.data_class import dataclass
from tazza.errors import UnsupportedError
from tazza.operator.kernel import Call, CallChain, Kernel, Launch, Operands
from tazza.operator.schema import OpSchema, Spec, logical
from tazza.operator.view import OpView
from tazza.tensor import RESIZED, ROW_MAJOR, Layout, Opaque, Tensor, TensorSpec, channels_last


def batched_letters(
    schema: OpSchema, op: OpView, specs: tuple[Sequence[Spec | None], Sequence[Spec | None]]
) -> frozenset[str]:
    """Return the inputs that have a batch: declared ones, or all of a pointwise operator that broadcasts nothing."""
    if schema.formulas is None or schema.declares_batch:
        return schema.batched_inputs(op)
    dims = {spec.dims if isinstance(spec, TensorSpec) else None for spec in (*specs[0], *specs[1])}
    return frozenset(op.input_letters) if len(dims) == 1 and None not in dims else frozenset()


def resized(spec: TensorSpec, images: int) -> TensorSpec:
    """Return the spec of another number of images, in the same layout.

    Raises:
        UnsupportedError: the layout cannot be cut between images.
    """
    return replace(spec, dims=(images, *spec.shape[1:]), layout=_resized_layout(spec.layout, spec.shape, images))


def _resized_layout(layout: Layout, shape: Sequence[int], images: int) -> Layout:
    """Return the layout of another number of images of a blob of that shape."""
    if layout == ROW_MAJOR:
        return layout
    if len(shape) > 2 and layout == channels_last(shape):
        return channels_last((images, *shape[1:]))
    change = RESIZED.get(layout.engine) if isinstance(layout, Opaque) else None
    found = None if change is None else change(cast("Opaque", layout), images)
    if found is None:
        raise UnsupportedError(f"images that lie as {layout} cannot be told apart in memory")
    return found


@dataclass(frozen=True, slots=True)
class Images:
    """The batch of an operator: how many images it has, and which inputs and outputs have one."""

    count: int
    letters: frozenset[str]
    outputs: frozenset[str]

    @classmethod
    def of(cls, op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Images | None:
        """Return the batch that is in all batched inputs and outputs; None where there is none, or no image."""
        letters = batched_letters(op.schema, op, (inputs, outputs))
        taken = [spec for letter, spec in zip(op.input_letters, inputs, strict=True) if letter in letters]
        results = frozenset(op.output_letters) - op.schema.unbatched_outputs
        taken += [spec for letter, spec in zip(op.output_letters, outputs, strict=True) if letter in results]
        counts = {_extent(spec) for spec in taken}
        count = counts.pop() if letters and len(counts) == 1 else None
        return cls(count, letters, results) if count else None

    def uncut(self, op: OpView, inputs: Sequence[Spec]) -> frozenset[str]:
        """Return the letters of which some blob lies so that its images cannot be told apart: to be row-major."""
        pairs = zip(op.input_letters, inputs, strict=True)
        return frozenset(letter for letter, spec in pairs if letter in self.letters and not _is_cut(spec))

    def some(
        self, count: int, op: OpView, specs: tuple[Sequence[Spec], Sequence[Spec]], plain: Collection[str]
    ) -> tuple[list[Spec], list[Spec]]:
        """Return the specs of inputs and outputs for so many images, those of `plain` letters row-major."""
        inputs = [
            _some(spec, count, letter in plain) if letter in self.letters else spec
            for letter, spec in zip(op.input_letters, specs[0], strict=True)
        ]
        return inputs, [
            _some(spec, count, not _is_cut(spec)) if letter in self.outputs else spec
            for letter, spec in zip(op.output_letters, specs[1], strict=True)
        ]

    def layouts(
        self, op: OpView, given: Mapping[str, Layout], specs: tuple[Sequence[Spec], Sequence[Spec]]
    ) -> dict[str, Layout]:
        """Return the layouts of all images from those, by letter, of some of them, whose specs these are.

        Raises:
            UnsupportedError: one cannot be cut between images.
        """
        found = dict(given)
        for letters, shapes in zip((op.input_letters, op.output_letters), specs, strict=True):
            for letter, spec in zip(letters, shapes, strict=True):
                if letter in given and letter in self.letters | self.outputs:
                    found[letter] = _resized_layout(given[letter], cast("TensorSpec", spec).shape, self.count)
        return found


def _is_cut(spec: Spec) -> bool:
    try:
        resized(cast("TensorSpec", spec), 1)
    except UnsupportedError:
        return False
    return True


def _some(spec: Spec, count: int, plain: bool) -> Spec:
    return resized(cast("TensorSpec", logical(spec) if plain else spec), count)


def _extent(spec: Spec) -> int | None:
    return spec.shape[0] if isinstance(spec, TensorSpec) and spec.shape_known and len(spec.shape) else None


def may_take_all(kernel: Kernel, op: OpView) -> bool:
    """Whether a kernel gives each image the same bits in any batch.

    It says so, or it is the definition of a pointwise operator.
    """
    return kernel.batch_invariant or (kernel.function is not None and op.schema.formulas is not None)


@dataclass(frozen=True, slots=True)
class ImageWise:
    """A launch for one image that runs for each of `count`; `letters` are the blobs that have a batch."""

    launch: Launch
    count: int
    letters: frozenset[str]
    capturable: bool = False

    @property
    def scratch_bytes(self) -> int:
        """That of one image."""
        return self.launch.scratch_bytes

    @property
    def implementation(self) -> str:
        """What one image runs."""
        return f"{getattr(self.launch, 'implementation', '')} image by image".strip()

    def bind(self, operands: Operands) -> Call:
        """Return the calls of all images as one."""
        return CallChain(tuple(self.launch.bind(self._image(operands, i)) for i in range(self.count)))

    def _image(self, operands: Operands, number: int) -> Operands:
        parts: dict[str, Any] = dict(operands.tensors)
        for letter in self.letters:
            value = parts.get(letter)
            if isinstance(value, tuple):
                parts[letter] = tuple(_part(one, number) for one in cast("tuple[Tensor, ...]", value))
            elif value is not None:
                parts[letter] = _part(value, number)
        return replace(operands, tensors=parts)


def _part(tensor: Tensor, number: int) -> Tensor:
    """Return one image of a tensor, in the same memory, which is there from now on."""
    tensor.reserve()
    spec = resized(tensor.spec, 1)
    return Tensor.over(tensor.storage, tensor.offset_bytes + number * spec.span_bytes, spec)

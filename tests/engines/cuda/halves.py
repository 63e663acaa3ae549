"""Cases of the families in 16 bits: inputs that operators take so on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np

from tazza.device import device_option
from tazza.errors import DTypeError
from tazza.models.mixed_precision import narrow_letters
from tazza.operator import HALVES, SCHEMAS, OpSchema, OpView, Spec, find_schema
from tazza.proto import DeviceOption, OperatorDef
from tazza.tensor import CUDAPlace, DataType, TensorSpec
from tazza.testing import Case
from tazza.testing.value import Array
from tests.device.cuda_cases import every_case
from tests.engines.cuda.models import ENGINES, engines_of

DEVICE = CUDAPlace(0)
NARROW = sorted(HALVES, key=lambda dtype: dtype.label)
SEED = 5


def free_letters(schema: OpSchema) -> set[str]:
    """Return the inputs whose type a rule checks, if anybody."""
    return {spec.name for spec in schema.inputs if spec.dtypes is None}


def takes_halves(type: str) -> bool:
    """Whether an operator has letters of 16 bits on devices."""
    return any(spec.elsewhere for spec in find_schema(type).inputs)


def narrow_types() -> list[str]:
    """Return the operator types that take 16 bits, and have a kernel for CUDA devices."""
    return [type for type in SCHEMAS if takes_halves(type) and {*engines_of(type)} & {*ENGINES}]


def cases_of(given: Callable[[str], Iterator[Case]]) -> list[Case]:
    """Return the cases of such operators, once each, of those that `given` yields for each engine."""
    found = {id(case): case for engine in ENGINES for case in given(engine) if takes_halves(case.type)}
    return list(found.values())


def narrow_problems() -> Iterator[tuple[OperatorDef, Sequence[Array]]]:
    """Yield those with kernels of our own, and what they read in 16 bits, of all families."""
    for case in filter(lambda case: takes_halves(case.type), every_case("cuda")):
        definition = case.definition("cuda")
        for dtype in NARROW:
            yield definition, narrowed(find_schema(case.type).view(definition), case.arrays(), dtype)


def narrowed(op: OpView, inputs: Sequence[Array], dtype: DataType) -> list[Array]:
    """Return inputs, those that may be so in 16 bits."""

    def of(letters: Collection[str]) -> list[Array]:
        pairs = zip(op.input_letters, inputs, strict=True)
        with np.errstate(over="ignore"):
            return [x.astype(dtype.numpy) if at in letters and x.dtype == np.float32 else x for at, x in pairs]

    own, there = narrow_letters(op.schema), op.schema.view(placed(op.definition, on_device=True))
    everything = of(own | free_letters(op.schema))
    try:
        inferred(there, everything)
    except DTypeError:
        return of(own)
    return everything


def widened(x: Array) -> Array:
    """Return numbers of 16 bits in float32, all others as they are."""
    return x.astype(np.float32) if DataType.of(x) in HALVES else x


def placed(definition: OperatorDef, *, on_device: bool) -> OperatorDef:
    """Return an operator on the device, or on the host; what is drawn is the same."""
    made = OperatorDef()
    made.CopyFrom(definition)
    made.device_option.CopyFrom(device_option(DEVICE) if on_device else DeviceOption())
    made.device_option.random_seed = SEED
    return made


def inferred(op: OpView, inputs: Sequence[Array]) -> Sequence[Spec | None]:
    """Return what is inferred of the outputs."""
    specs = [TensorSpec(x.shape, DataType.of(x)) for x in inputs]
    return op.schema.infer_specs(op, specs, lambda letter: inputs[op.input_letters.index(letter)]).specs

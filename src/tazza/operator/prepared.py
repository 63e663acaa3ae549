"""Operators without a net, prepared once for inputs of one kind and run again on others.

`run_on_tensors` is `ta.run_op`. Making and binding an operator takes much longer than a small one runs, so a bound one
is kept and its inputs are copied in and its outputs out, as long as they are small. Larger ones are lent: the operator
is bound to the tensor that was given, or makes the one that is returned, and lets go of it afterwards.

What is not kept: operators with state (host kernels, kernels that open something), those that drew random numbers (each
call draws from a new generator), blobs that hold no tensor, and arguments that are messages or arrays. An operator is
good for as long as the registries of schemas, kernels and engines stay as they were when it was made.

State: `PREPARED`, a thread's prepared operators, the last used at the end. One is taken out while it runs, so that an
operator that calls another of its kind gets a second.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import Any, cast

import numpy as np

from tazza.device import Generator
from tazza.operator.argument import with_numbers_of_types
from tazza.operator.definition import operator_def
from tazza.operator.engine import ENGINES, preferences
from tazza.operator.in_place import must_overwrite
from tazza.operator.kernel import KERNELS, Kernel
from tazza.operator.local import LocalBlobs
from tazza.operator.operator import Operator
from tazza.operator.registry import SCHEMAS, find_schema
from tazza.operator.schema import OpSchema
from tazza.proto import DeviceOption, OperatorDef
from tazza.runtime.cache import Cache
from tazza.runtime.threads import thread_count
from tazza.tensor import Int8Tensor, Opaque, Tensor
from tazza.tensor.blob import type_of
from tazza.tensor.running import RUNNERS
from tazza.tensor.transfer import to_place

KEPT = 64
"""Prepared operators that a thread keeps."""

COPIED_BYTES = 1 << 20
"""Up to this size a tensor is copied, which takes less time than binding an operator to another address."""

_PLAIN = (int, float, bool, str, bytes, type(None))
_threads = threading.local()


def run_on_tensors(
    type: str,
    *inputs: Any,
    outputs: int | None = None,
    engine: str = "",
    device: DeviceOption | None = None,
    **arguments: Any,
) -> Any:
    """Run an operator and return its outputs as new tensors; see `tazza.tensor.run_op`.

    Raises:
        TazzaError: whatever is wrong with the operator or its inputs.
    """
    values = [_as_input(value) for value in inputs]
    key = _key((type, outputs, engine, device), values, arguments)
    kept = _of_this_thread()
    prepared = None if key is None else kept.take(key)
    if prepared is not None and prepared.registered != _registered():
        prepared.close()
        prepared = None
    if prepared is None:
        prepared = PreparedOperator(type, values, outputs, engine, device, arguments)
    results = prepared.run(values)  # when this raises, the operator is not kept
    if key is not None and prepared.reusable and prepared.is_registered():
        kept.put(key, prepared)
    else:
        prepared.close()
    return results[0] if len(results) == 1 else tuple(results)


def run_once(
    type: str, inputs: Sequence[Any], *, outputs: int | None, engine: str, device: DeviceOption | None, **arguments: Any
) -> list[Any]:
    """Run a new operator, keep nothing of it, and return its outputs.

    Raises:
        TazzaError: whatever is wrong with the operator or its inputs.
    """
    values = [_as_input(value) for value in inputs]
    prepared = PreparedOperator(type, values, outputs, engine, device, arguments)
    try:
        return prepared.run(values)
    finally:
        prepared.close()


RUNNERS.register("operator.prepared", run_on_tensors, help="one operator, prepared and kept")


class PreparedOperator:
    """One operator with blobs of its own, for inputs of one kind."""

    def __init__(
        self,
        type: str,
        values: Sequence[Any],
        outputs: int | None,
        engine: str,
        device: DeviceOption | None,
        arguments: dict[str, Any],
    ) -> None:
        """Make the operator; `values` are its first inputs, which it may look at as it is made.

        Raises:
            TazzaError: it is not legal.
        """
        self.definition = local_definition(type, len(values), outputs, engine, device, arguments)
        names_in, names_out = self.definition.input, self.definition.output
        self.registered: tuple[int, ...] | None = None
        self._blobs = LocalBlobs()
        self._inputs = [self._blobs.create_blob(name) for name in names_in]
        self._own: list[Tensor | None] = [None] * len(values)
        self._overwritten = [name in names_out for name in names_in]
        self._lent = False
        self._set_inputs(values)
        self._operator = _LocalOperator(self.definition, self._blobs, strict=True)
        self._outputs = [self._blobs.create_blob(name) for name in names_out]

    @property
    def reusable(self) -> bool:
        """Whether another run with other inputs is as good as that of a new operator."""
        held = [blob.value for blob in (*self._inputs, *self._outputs)]
        return not self._operator.has_state and all(value is None or isinstance(value, Tensor) for value in held)

    def is_registered(self) -> bool:
        """Whether schema and kernel are still what the registries have; remember up to when that is known."""
        now = _registered()  # before looking: what is registered meanwhile makes it old
        if self.registered == now:
            return True
        kernels = self._operator.kernels
        if SCHEMAS.get(self.definition.type) is not self._operator.schema or any(
            KERNELS.get((one.type, one.device, one.engine)) is not one for one in kernels
        ):
            return False
        self.registered = now  # the first run itself loads kernels, so that it is known afterwards only
        return True

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Run on these inputs and return the outputs, which the operator does not touch again."""
        self._set_inputs(values)
        try:
            with np.errstate(all="ignore"):
                self._operator.run()
            return [self._take(i) for i in range(len(self._outputs))]
        finally:
            if self._lent:
                self._let_go()

    def close(self) -> None:
        """End what the operator holds."""
        self._operator.close()

    def _set_inputs(self, values: Sequence[Any]) -> None:
        for i, (blob, value) in enumerate(zip(self._inputs, values, strict=True)):
            if isinstance(value, np.ndarray):
                self._set_array(i, cast("Any", value))
            elif not isinstance(value, Tensor):
                blob.set(value)
            elif self._overwritten[i] and not value.place.is_host:
                blob.set(to_place(value, value.place, copy=True))
            elif _copied(value) or self._overwritten[i]:
                self._set_array(i, value.plain(), copy=True)
                self._inputs[i].tensor().quantize_as(value.quantization)
            else:
                self._lent = True
                blob.set(value)

    def _set_array(self, i: int, array: Any, *, copy: bool = False) -> None:
        if not copy and array.nbytes > COPIED_BYTES and not self._overwritten[i]:
            self._lent = True
            self._inputs[i].set(Tensor.from_numpy(array, copy=None))
            return
        own = self._own[i]
        if own is None:
            own = self._own[i] = Tensor()
        if not own.overwrite(array):
            own.assign(array)
        if self._inputs[i].value is not own:
            self._inputs[i].set(own)

    def _take(self, i: int) -> Any:
        """Return output i: a copy, or the tensor itself where it is large, which the blob then gives up."""
        blob = self._outputs[i]
        value = blob.value
        if not isinstance(value, Tensor):
            return value
        if isinstance(value.layout, Opaque):
            value.make_plain()
        if _copied(value) and value.allocated:
            copy = Tensor.from_numpy(value.array)
            copy.quantize_as(value.quantization)
            return copy
        self._lent = True
        blob.reset()
        return value

    def _let_go(self) -> None:
        """Hold nothing of what was lent, or handed out."""
        self._lent = False
        self._operator.forget()
        for i, blob in enumerate(self._inputs):
            if isinstance(blob.value, Tensor) and blob.value is not self._own[i]:
                blob.reset()
            if blob.is_empty:
                self._own[i] = None


class _LocalOperator(Operator):
    """An operator that tells whether it drew random numbers or keeps other state, and can let go of its tensors."""

    drew = False

    def __init__(self, definition: OperatorDef, blobs: LocalBlobs, *, strict: bool) -> None:
        self.kernels: list[Kernel] = []
        super().__init__(definition, blobs, strict=strict)

    def state(self, kernel: Kernel) -> Any:
        """Return what the kernel keeps, and remember that it was bound."""
        if kernel not in self.kernels:
            self.kernels.append(kernel)
        return super().state(kernel)

    def generator(self) -> Generator:
        """Return the generator, and remember that it was asked for."""
        self.drew = True
        return super().generator()

    @property
    def has_state(self) -> bool:
        """Whether a second run could differ from the first of a new operator."""
        return self.drew or self._host is not None or any(state is not None for state in self._states.values())


def local_definition(
    type: str, inputs: int, outputs: int | None, engine: str, device: DeviceOption | None, arguments: dict[str, Any]
) -> OperatorDef:
    """Return the definition of an operator on blobs `in0 ...` and `out0 ...`.

    An output that must overwrite an input has the name of that. `outputs` is how many are wanted: all that are not
    optional by default.
    """
    declared = find_schema(type)
    follows = declared.output_count(inputs) if outputs is None else outputs
    count = max(1, sum(not spec.optional for spec in declared.outputs)) if follows is None else follows
    names_in = [f"in{i}" for i in range(inputs)]
    names_out = [f"out{i}" for i in range(count if declared.outputs else 0)]
    stored = with_numbers_of_types(declared.args, arguments)
    definition = operator_def(type, names_in, names_out, engine=engine, device=device, **stored)
    if declared.must_in_place:
        definition.output[:] = _overwriting(declared, definition)
    return definition


def _overwriting(declared: OpSchema, definition: OperatorDef) -> list[str]:
    op = declared.typed_view(definition)  # `view` would refuse what does not overwrite yet
    names: list[str] = []
    for position, name in enumerate(definition.output):
        forced = must_overwrite(op, position)
        names.append(definition.input[forced[0]] if forced else name)
    return names


def _as_input(value: Any) -> Any:
    """Return numbers and lists as arrays (Python floats as float32, ints as int32); tensors and other values as is."""
    if isinstance(value, (Tensor, np.ndarray)):
        return cast("Any", value)
    if isinstance(value, Int8Tensor):
        tensor = Tensor.from_numpy(value.data)
        tensor.quantize_as(value.quantization)
        return tensor
    if not isinstance(value, (int, float, list, tuple, np.generic)):
        is_array = hasattr(value, "__array__") and type_of(value) is None  # such as a lazy expression
        return np.asarray(value) if is_array else value
    array = np.asarray(cast("Any", value))
    narrow = None if isinstance(value, np.generic) else {"f": np.float32, "i": np.int32}.get(array.dtype.kind)
    return array if narrow is None else array.astype(narrow)


def _copied(tensor: Tensor) -> bool:
    return tensor.nbytes <= COPIED_BYTES and tensor.place.is_host and not isinstance(tensor.layout, Opaque)


PREPARED: Cache[Hashable, PreparedOperator] = Cache(
    "prepared operators of a thread", KEPT, kernels=True, dropped=lambda prepared: prepared.close()
)
"""What every thread has another of."""


def _of_this_thread() -> Cache[Hashable, PreparedOperator]:
    found: Cache[Hashable, PreparedOperator] | None = getattr(_threads, "kept", None)
    if found is None:
        found = _threads.kept = PREPARED.another()
    return found


def _registered() -> tuple[int, ...]:
    """Return what changes with every registration that could give an operator another meaning or kernel."""
    return SCHEMAS.generation, KERNELS.generation, ENGINES.generation


# -- what makes two calls alike ----------------------------------------------------------------------------------------


def _key(what: tuple[Any, ...], values: Sequence[Any], arguments: dict[str, Any]) -> Hashable | None:
    """Return what a prepared operator depends on; None where it cannot be told, or is not kept anyway."""
    type, outputs, engine, device = what
    specs: list[Hashable] = []
    for value in values:
        if isinstance(value, Tensor):
            specs.append((value.spec.shape, value.spec.dtype, value.spec.place, value.quantization))
        elif isinstance(value, np.ndarray):
            specs.append((cast("Any", value).shape, cast("Any", value).dtype))
        else:
            return None
    frozen: list[Hashable] = []
    for name, value in arguments.items():
        item = _frozen(value)
        if item is None:
            return None
        frozen.append((name, item))
    where = None if device is None else device.SerializeToString(deterministic=True)
    setting = preferences(), thread_count()
    return type, outputs, engine, where, setting, tuple(specs), tuple(frozen)


def _frozen(value: Any) -> Hashable | None:
    """Return an argument so that 1, 1.0 and True differ; None for what is neither plain nor a list of plain values."""
    if isinstance(value, _PLAIN):
        return _told_apart(value)
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return (tuple(map(_told_apart, items)),) if all(isinstance(one, _PLAIN) for one in items) else None
    return None


def _told_apart(value: Any) -> Hashable:
    # 0.0 equals -0.0 and no NaN equals itself; their texts do as is wanted.
    return value.__class__, repr(value) if isinstance(value, float) else value

"""A float32 net becomes one of bytes, operator by operator.

Every blob has up to two forms, float32 as it was and bytes with the channels last; whoever reads one that is not there
has it made. An operator becomes one on bytes where there is one, and where what it reads has bytes or is worth them:
`BYTES` has a function for each operator type (`rules`), which emits it or says why not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.interop.export import parameter_fill
from tazza.interop.int8.method import Range
from tazza.operator import find_schema, operator_def
from tazza.ops.math.clip import CLIP
from tazza.ops.nn.relu import RELU
from tazza.proto import NetDef, OperatorDef
from tazza.registry import Registry
from tazza.tensor import PerChannel, PerTensor

LARGEST = 127
"""Of filters less their zero point, 128: as many numbers below it as above."""

WEIGHTS = {"channel": "a scale for each output channel", "tensor": "one for all, which Caffe2 reads too"}
"""How filters are scaled."""
ASKED = "it was asked to stay"


@dataclass(frozen=True, slots=True)
class ByteForm:
    """The bytes of a blob: their name, what they mean, and whether the channels were moved to the end for them."""

    name: str
    meaning: PerTensor
    moved: bool


class Rewriting:
    """One net on its way to bytes: what was emitted, and which forms of each blob there are."""

    def __init__(
        self,
        net: NetDef,
        parameters: Mapping[str, NDArray[Any]],
        ranges: Mapping[str, Range],
        *,
        weights: str = "channel",
        keep: Collection[str] = (),
    ) -> None:
        """Take a net in which each name is written once, its parameters, and what its blobs range over.

        Raises:
            ArgumentError: filters cannot be scaled so, or no operator makes what is to be kept.
        """
        if weights not in WEIGHTS:
            raise ArgumentError(f"filters are not scaled by {weights!r}", hint=f"take one of {', '.join(WEIGHTS)}")
        strange = sorted(set(keep) - {name for op in net.op for name in op.output})
        if strange:
            raise ArgumentError(f"no operator makes {', '.join(map(repr, strange))}", hint="name outputs of the net")
        self.net = net
        self.parameters = parameters
        self.ranges = ranges
        self.weights = weights
        self.keep = frozenset(keep)
        self.kept: dict[str, str] = {}
        """Of operators that stay float32: their first output, and the reason."""
        self.fills: list[OperatorDef] = []
        self.ops: list[OperatorDef] = []
        self.bytes: dict[str, ByteForm] = {}
        self.readers: Counter[str] = Counter(name for op in net.op for name in op.input)
        self.readers.update(net.external_output)
        self._float = {*net.external_input, *parameters, *ranges} - {name for op in net.op for name in op.output}
        self._done: set[int] = set()

    def nets(self, init_net: NetDef) -> tuple[NetDef, NetDef]:
        """Return the init net and the predict net."""
        for position, op in enumerate(self.net.op):
            if position not in self._done:
                self._step(op)
        for name in self.net.external_output:
            self.number_form(name)
        return self._assembled(init_net)

    def _step(self, op: OperatorDef) -> None:
        rule = BYTES.get(op.type)
        reason = f"{op.type} has no rule for bytes" if rule is None else ASKED if self.stays(op) else rule(self, op)
        if reason is None:
            return
        self.kept[op.output[0] if op.output else op.type] = reason
        op_copy = OperatorDef()
        op_copy.CopyFrom(op)
        for name in op.input:
            self.number_form(name)
        self.ops.append(op_copy)
        self._float.update(op.output)

    # -- what rules ask for --------------------------------------------------------------------------------------------

    def stays(self, op: OperatorDef) -> bool:
        """Whether an operator, or the rectifier that would become part of it, was asked to stay float32."""
        behind = [self.sole_reader(name) for name in op.output]
        outputs = {name for found in behind if found is not None and rectifies(found[1]) for name in found[1].output}
        return bool(self.keep & (outputs | set(op.output)))

    def shape(self, blob: str) -> tuple[int, ...] | None:
        """Return the shape that a blob had when the net was watched."""
        found = self.ranges.get(blob)
        return None if found is None else found.shape

    def sole_reader(self, name: str) -> tuple[int, OperatorDef] | None:
        """Return the only operator that reads a blob, with its position."""
        if self.readers[name] != 1:
            return None
        return next(((i, op) for i, op in enumerate(self.net.op) if name in op.input), None)

    def take(self, position: int) -> None:
        """Count an operator as part of one that is emitted."""
        self._done.add(position)

    def emit(self, type: str, inputs: list[str], blob: str, moved: bool, **arguments: Any) -> None:
        """Emit an operator that makes the bytes of a blob; `moved`: they have the channels elsewhere than it has."""
        self.emit_as(type, inputs, blob, self.ranges[blob].quantization, moved, **arguments)

    def emit_like(self, type: str, source: str, blob: str, **arguments: Any) -> None:
        """Emit an operator on bytes whose result has the scale and the zero point of what it reads."""
        form = self.bytes[source]
        self.emit_as(type, [form.name], blob, form.meaning, form.moved, **arguments)

    def emit_flat(self, type: str, source: str, blob: str, **arguments: Any) -> None:
        """Emit what `emit_like` emits, of which the channels are no longer anywhere."""
        form = self.bytes[source]
        self.emit_as(type, [form.name], blob, form.meaning, moved=False, **arguments)

    def emit_as(
        self, type: str, inputs: list[str], blob: str, meaning: PerTensor, moved: bool, **arguments: Any
    ) -> None:
        """Emit an operator on bytes whose result has this meaning, which is always said: Caffe2 asks for that."""
        name = f"{blob}_int8"
        said: dict[str, Any] = {"Y_scale": meaning.scale, "Y_zero_point": meaning.zero_point}
        self.ops.append(operator_def(type, inputs, [name], **arguments, **said))
        self.bytes[blob] = ByteForm(name, meaning, moved)

    def anew(self, form: ByteForm, blob: str, meaning: PerTensor) -> str:
        """Emit what rounds bytes to another meaning, as Caffe2 can too: by way of numbers. Return their name."""
        name = f"{form.name}_for_{blob}"
        said: dict[str, Any] = {"Y_scale": meaning.scale, "Y_zero_point": meaning.zero_point}
        self.ops.append(operator_def("Int8Dequantize", [form.name], [f"{name}_number"]))
        self.ops.append(operator_def("Int8Quantize", [f"{name}_number"], [name], **said))
        return name

    def byte_form(self, blob: str, *, moved: bool) -> ByteForm:
        """Return the bytes of a blob, made of its numbers where they are not there."""
        if blob not in self.bytes:
            source = blob
            if moved:
                source = f"{blob}_nhwc"
                self.ops.append(operator_def("NCHW2NHWC", [blob], [source]))
            self.emit("Int8Quantize", [source], blob, moved)
        return self.bytes[blob]

    def number_form(self, blob: str) -> None:
        """Make the numbers of a blob of its bytes, where they are not there."""
        if blob in self._float or blob not in self.bytes:
            return
        form = self.bytes[blob]
        target = f"{blob}_nhwc" if form.moved else blob
        self.ops.append(operator_def("Int8Dequantize", [form.name], [target]))
        if form.moved:
            self.ops.append(operator_def("NHWC2NCHW", [target], [blob]))
        self._float.add(blob)

    def alias(self, source: str, blob: str) -> None:
        """Let a blob have the bytes of another, whose numbers are the same."""
        self.bytes[blob] = self.bytes[source]

    def filters(self, name: str, W: NDArray[Any], *, one_scale: bool = False) -> tuple[str, PerTensor | PerChannel]:
        """Return the bytes of filters (M, ...), with a scale for each of the M, or one where that is wished for."""
        largest = np.abs(W).reshape(len(W), -1).max(1, initial=0)
        meaning: PerTensor | PerChannel
        if one_scale or self.weights == "tensor":
            most = float(largest.max(initial=0))
            meaning = PerTensor(float(np.float32(most / LARGEST if most > 0 else 1.0)), LARGEST + 1)
        else:
            scales = np.where(largest > 0, largest / LARGEST, 1.0).astype(np.float32)
            meaning = PerChannel(0, tuple(map(float, scales)), (LARGEST + 1,) * len(W))
        made = f"{name}_filters_int8"
        self._fill("Int8GivenTensorFill", made, meaning.integers(W), meaning)
        return made, meaning

    def bias(self, name: str, b: NDArray[Any], X: PerTensor, W: PerTensor | PerChannel) -> str:
        """Return the whole numbers of a bias in units of s_X s_W."""
        scales = np.float32(X.scale) * np.array(W.scale if isinstance(W, PerTensor) else W.scales, np.float32)
        most = 2.0**30
        whole = np.clip(np.rint(b.astype(np.float64) / scales), -most, most).astype(np.int32)
        made = f"{name}_bias_int32"
        one = isinstance(W, PerTensor)
        meaning = PerTensor(float(scales)) if one else PerChannel(0, tuple(map(float, scales)), (0,) * len(b))
        self._fill("Int8GivenIntTensorFill", made, whole, meaning)
        return made

    def _fill(self, type: str, name: str, q: NDArray[Any], meaning: PerTensor | PerChannel) -> None:
        if any(name in op.output for op in self.fills):
            return
        values: Any = q.tobytes() if q.dtype == np.uint8 else q.reshape(-1).tolist()
        self.fills.append(operator_def(type, [], [name], shape=list(q.shape), values=values, **_meaning_args(meaning)))

    # -- the result ----------------------------------------------------------------------------------------------------

    def _assembled(self, init_net: NetDef) -> tuple[NetDef, NetDef]:
        predict = NetDef(name=self.net.name, type=self.net.type, op=self.ops, arg=self.net.arg)
        predict.external_output.extend(self.net.external_output)
        made = {name for op in self.ops for name in op.output}
        read = dict.fromkeys(name for op in self.ops for name in op.input if name not in made)
        held = {name for op in self.fills for name in op.output}
        init = NetDef(name=init_net.name, op=self.fills)
        init.op.extend(parameter_fill(name, self.parameters[name]) for name in read if name in self.parameters)
        predict.external_input.extend(name for name in read if name not in held and name not in self.parameters)
        predict.external_input.extend(name for name in read if name in held or name in self.parameters)
        return init, predict


def rectifies(op: OperatorDef) -> bool:
    """Whether an operator cuts off what is below 0: a rectifier, or Clip from 0 on.

    What Clip cuts off above lies beyond the range that was seen behind it, so bytes cut it off by themselves.
    """
    return op.type == RELU.type or (op.type == CLIP.type and find_schema(op.type).view(op).min == 0)


def _meaning_args(meaning: PerTensor | PerChannel) -> dict[str, Any]:
    """Return the arguments of a fill that say what its whole numbers mean."""
    if isinstance(meaning, PerTensor):
        return {"Y_scale": meaning.scale, "Y_zero_point": meaning.zero_point}
    points = {} if not any(meaning.zero_points) else {"Y_zero_points": list(meaning.zero_points)}
    return {"Y_scales": list(meaning.scales), **points}


Rule = Callable[[Rewriting, OperatorDef], str | None]
BYTES: Registry[str, Rule] = Registry("rule for an operator on bytes")
"""Operator type -> what emits it on bytes, or says why it stays float32."""


def for_bytes(*types: str) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule for operator types."""

    def decorate(rule: Rule) -> Rule:
        for type in types:
            BYTES.register(type, rule, help=rule.__qualname__)
        return rule

    return decorate

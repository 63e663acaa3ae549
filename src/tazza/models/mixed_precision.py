"""Mixed precision: what a net computes so far, in 16 bits; what its parameters are, in float32.

    scores = builder(model, "data")
    scores = in_sixteen_bits(model, scores, "bfloat16")
    softmax, loss = layers.softmax_with_loss(model, scores, "label")
    add_scaled_gradients(model, loss); sgd(model, 0.1)

Operators that take 16 bits on a device (`blob(..., elsewhere=HALVES)`) get them: activations stay so from one to the
next, parameters and data by a copy that is made in each step. Others, and letters that take float32 alone, such as
the statistics of a normalization, get float32. So parameters, their gradients and what an optimizer keeps are in
float32, as losses are, which come behind. float16 wants a scale for the loss (`models.loss_scale`), bfloat16 none.

Source: P. Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.1; Caffe2's `PseudoFP16Initializer`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tazza.device import device_option
from tazza.errors import DTypeError, NotFoundError
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.operator import FLOAT, HALVES, BlobSpec, OpSchema, OpView, Spec, find_schema, operator_def
from tazza.ops.quantized.half import narrowing_to
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import CUDAPlace, DataType, TensorSpec


def in_sixteen_bits(model: Model, result: str, dtype: DataType | str = DataType.FLOAT16) -> BlobReference:
    """Let all that a model's net computes so far be computed in 16 bits; return the blob of a result in float32.

    Call it before losses and gradients are added. The net then runs on devices alone.

    Args:
        model: its net is rewritten.
        result: what the net has made.
        dtype: `float16` or `bfloat16`.

    Raises:
        DTypeError: another type.
        NotFoundError: the net makes no such blob.

    >>> from tazza.models import layers
    >>> model = Model("small")
    >>> in_sixteen_bits(model, layers.fc(model, "X", "scores", 3, 2))
    BlobReference('scores_float32')
    >>> [f"{op.type} {' '.join(op.input)} -> {op.output[0]}" for op in model.net.proto.op][2:]
    ['FloatToHalf scores_b -> scores_b_float16', 'FC X_float16 scores_w_float16 scores_b_float16 -> scores', \
'HalfToFloat scores -> scores_float32']
    """
    narrow = DataType.of(dtype)
    if narrow not in HALVES:
        raise DTypeError(f"activations in {narrow.label}", hint="give float16 or bfloat16")
    net = model.net.proto
    if not any(result in op.output for op in net.op):
        raise NotFoundError(f"no operator of net {model.net.name!r} makes {result!r}")
    rewriting = _Rewriting(net, narrow, {str(one.blob): DataType.FLOAT for one in model.parameters.values()})
    for op in net.op:
        rewriting.add(op)
    found = rewriting.copy(str(result), DataType.FLOAT, rewriting.made[-1])
    del net.op[:]
    net.op.extend(rewriting.made)
    model.net.proto = net  # what was known of its names is read anew
    return BlobReference(found, model.net)


class _Rewriting:
    """Operators that were rewritten, and what is known of the blobs behind them."""

    def __init__(self, net: NetDef, narrow: DataType, types: dict[str, DataType]) -> None:
        self.narrow = narrow
        self.types: dict[str, DataType | None] = {**types}
        self.made: list[OperatorDef] = []
        self._copies: dict[tuple[str, DataType], str] = {}
        self._names = {*net.external_input, *(name for op in net.op for name in (*op.input, *op.output))}

    def add(self, given: OperatorDef) -> None:
        """Append an operator, and before it the copies of its inputs that it needs."""
        op = OperatorDef()
        op.CopyFrom(given)
        view = find_schema(op.type).view(op)
        for place, (name, wanted) in enumerate(zip(given.input, self._wanted(view), strict=True)):
            if wanted is not None:
                op.input[place] = self.copy(name, wanted, op)
        self.made.append(op)
        for name, spec in zip(op.output, self._inferred(op), strict=True):
            self.types[name] = spec.dtype if isinstance(spec, TensorSpec) else None
            for dtype in (self.narrow, DataType.FLOAT):
                self._copies.pop((name, dtype), None)

    def copy(self, name: str, wanted: DataType, like: OperatorDef) -> str:
        """Return the name of a blob in another type, which is made where `like` runs; its own where it has that."""
        known = self.types.get(name)
        if known is wanted or (known is not self.narrow and wanted is DataType.FLOAT):
            return name
        found = self._copies.get((name, wanted))
        if found is None:
            found = self._copies[name, wanted] = self._free_name(f"{name}_{wanted.label}")
            type = narrowing_to(self.narrow)[wanted is DataType.FLOAT]
            self.made.append(operator_def(type, [name], [found], device=like.device_option))
            self.types[found] = wanted
        return found

    def _free_name(self, stem: str) -> str:
        name, count = stem, 1
        while name in self._names:
            count += 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name

    def _wanted(self, view: OpView) -> Iterator[DataType | None]:
        """Yield the type that each input is to have; None: as it is."""
        specs = [view.schema.inputs_by_letter[letter] for letter in view.input_letters]
        names = list(view.definition.input)
        narrow = narrow_letters(view.schema)
        there = {spec.name for spec, name in zip(specs, names, strict=True) if self.types.get(name) is self.narrow}
        several = any(spec.name in narrow and spec.elsewhere and spec.dtypes != FLOAT for spec in specs)
        for spec in specs:
            if spec.name in narrow:  # where other numbers may stand there, they stay unless one of them is narrow
                yield None if several and not there & narrow else self.narrow
            elif spec.dtypes is None:
                yield self.narrow if spec.variadic and spec.name in there else None
            else:
                yield DataType.FLOAT

    def _inferred(self, op: OperatorDef) -> tuple[Spec | None, ...]:
        """Return what follows for the outputs, as far as types are known."""
        there = OperatorDef()
        there.CopyFrom(op)
        there.device_option.CopyFrom(device_option(CUDAPlace(0)))  # types are those of devices
        view = find_schema(op.type).view(there)
        letters = (view.schema.inputs_by_letter[letter] for letter in view.input_letters)
        given = [self._spec(name, spec) for name, spec in zip(op.input, letters, strict=True)]
        return view.schema.infer_specs(view, given).specs

    def _spec(self, name: str, declared: BlobSpec) -> TensorSpec | None:
        dtype = self.types.get(name)
        if dtype is None:
            taken = declared.taken_on(host=True)
            dtype = next(iter(taken)) if taken is not None and len(taken) == 1 else None
        return None if dtype is None else TensorSpec(None, dtype)


def narrow_letters(schema: OpSchema) -> frozenset[str]:
    """Return the inputs of an operator that may be of 16 bits on devices: those that say so, and what has their type.

    >>> sorted(narrow_letters(find_schema("SpatialBN"))), sorted(narrow_letters(find_schema("FC")))
    (['X'], ['W', 'X', 'b'])
    """
    own = {spec.name for spec in schema.inputs if spec.elsewhere}
    return frozenset(own | {spec.name for spec in schema.inputs if spec.dtypes in own})

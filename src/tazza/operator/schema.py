"""What is legal for an operator type and what follows from it: one `OpSchema` per type, declared in the family file.

    LEAKY_RELU = schema(
        "LeakyRelu",
        "Y = X where X >= 0, else alpha * X.",
        inputs=[blob("X", FLOAT, "*S")],
        outputs=[blob("Y", like="X")],
        args=[arg("alpha", float, 0.01, doc="slope for X < 0")],
        in_place={"Y": "X"},
    )

Shapes follow from the patterns of `blob` where they can (see `operator.pattern`); else the family adds
`@LEAKY_RELU.infer`. Cost is reading and writing everything once with one operation an element, unless
`@LEAKY_RELU.cost` says otherwise. `@LEAKY_RELU.gradient` adds the gradient maker; an operator without one says why in
`no_gradient`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError
from tazza.operator.argument import BUILDER_ARGUMENTS, ArgSpec
from tazza.operator.cost import Cost, streamed
from tazza.operator.effect import Effects
from tazza.operator.expression import Formulas
from tazza.operator.gradient import GradientMaker, GradientRule, NoGradient
from tazza.operator.pattern import Bindings, Dims, fill, match
from tazza.operator.view import Known, OpView
from tazza.proto import Argument, OperatorDef
from tazza.tensor import ROW_MAJOR, CPUPlace, DataType, PerChannel, PerRow, PerTensor, Place, TensorSpec, TypeSpec

if TYPE_CHECKING:
    from tazza.operator.touches import Touched

Spec: TypeAlias = TensorSpec | TypeSpec
DTypes: TypeAlias = "DataType | frozenset[DataType] | str | None"
EffectsRule: TypeAlias = "Effects | Callable[[OpView], Effects]"
F = TypeVar("F", bound=Callable[..., Any])

FLOAT = frozenset({DataType.FLOAT})
INDEX = frozenset({DataType.INT32, DataType.INT64})
NUMBERS = frozenset(DataType) - {DataType.STRING, DataType.BOOL}

PLAIN: frozenset[type] = frozenset({type(None)})
"""Of a letter: tensors that are not quantized. Quantizations are joined by `|`, as in `PLAIN | PER_ROW`."""
PER_TENSOR: frozenset[type] = frozenset({PerTensor})
PER_CHANNEL: frozenset[type] = frozenset({PerChannel})
PER_ROW: frozenset[type] = frozenset({PerRow})


TENSOR = "Tensor"
"""What unions of types call a tensor."""


@dataclass(frozen=True, slots=True)
class BlobSpec:
    """Declaration of one input or output letter; see `blob`."""

    name: str
    dtypes: DTypes
    dims: str | None
    like: str | None
    optional: bool
    variadic: bool
    type_name: str | None
    dynamic: bool
    host: bool
    doc: str
    quantization: frozenset[type] = PLAIN
    also: tuple[str, ...] = ()

    @property
    def only_tensors(self) -> bool:
        """Whether it holds a tensor, and cannot hold anything else."""
        return self.type_name is None and not self.also

    def takes_type(self, name: str) -> bool:
        """Whether a blob of that type may stand here."""
        return self.type_name == "*" or name == (self.type_name or TENSOR) or name in self.also


def blob(
    name: str,
    dtypes: DTypes = None,
    dims: str | None = None,
    *,
    like: str | None = None,
    optional: bool = False,
    variadic: bool = False,
    type_name: str | tuple[str, ...] | None = None,
    quantization: frozenset[type] = PLAIN,
    dynamic: bool = False,
    host: bool = False,
    doc: str = "",
) -> BlobSpec:
    """Declare one input or output.

    Args:
        name: the schema's letter, such as `X` or `dY`.
        dtypes: allowed element types; the letter of another blob means "the same as that one"; None means any.
        dims: shape pattern such as `"N C *S"`.
        like: for an output: dtype and shape are those of this input; for an input, which inference checks: those of
            this output.
        optional: may be left out (trailing ones only, unless the schema names its slots).
        variadic: stands for any number of blobs, at least one unless optional.
        type_name: the blob holds something else than a tensor, such as `"std::unique_ptr<std::mutex>"`; `"*"` means
            anything, several names one of these, `"Tensor"` among them a tensor.
        quantization: what a tensor here may be: `PLAIN`, `PER_TENSOR`, `PER_CHANNEL`, `PER_ROW`, or some of them.
        dynamic: the size of this output depends on data, so the kernel allocates it.
        host: the blob lives on the CPU, whatever the operator's device.
        doc: what it is, where the letter does not say it.
    """
    names = (type_name,) if isinstance(type_name, str) else () if type_name is None else type_name
    first = None if not names or names[0] == TENSOR else names[0]
    return BlobSpec(name, dtypes, dims, like, optional, variadic, first, dynamic, host, doc, quantization, names[1:])


@dataclass(frozen=True, slots=True)
class TrainingMode:
    """What an operator does only while it trains; `argument` = 1 switches that off, and then `outputs` fall away."""

    argument: str
    outputs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Prediction:
    """How to make some outputs alone: `operators(op)` are what makes them without what only a loss reads."""

    outputs: frozenset[str]
    operators: Callable[[OpView], list[OperatorDef]]


@dataclass(frozen=True, slots=True)
class Inferred:
    """What follows from inputs: a spec for each output (None: unknown), and the letters whose values were read."""

    specs: tuple[Spec | None, ...]
    reads: frozenset[str]


class OpSchema:
    """All that is true of an operator type on any device. Made by `schema`; completed by its decorators."""

    touches_rule: Callable[[OpView], Touched] | None = None

    def __init__(
        self,
        type: str,
        doc: str,
        *,
        inputs: Sequence[BlobSpec],
        outputs: Sequence[BlobSpec],
        args: Iterable[ArgSpec],
        in_place: Mapping[str, str | tuple[str, ...]],
        must_in_place: Mapping[str, str],
        no_gradient: NoGradient | None,
        arity: Callable[[int, int], bool] | None,
        ineffective: Callable[[OperatorDef], list[str]] | None,
        open_args: Callable[[str], bool] | None,
        effects: EffectsRule | None,
        onnx: str | None,
        source: str,
        example: str,
        module: str,
    ) -> None:
        """See `schema`."""
        self.type = type
        self.doc = doc
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.args = {spec.name: spec for spec in args}
        self._defaults = {name: spec.default for name, spec in self.args.items()}
        self._required = tuple(name for name, spec in self.args.items() if spec.required)
        self.in_place = {out: (letter,) if isinstance(letter, str) else letter for out, letter in in_place.items()}
        self.must_in_place = dict(must_in_place)
        self.inputs_by_letter = {spec.name: spec for spec in self.inputs}
        self.outputs_by_letter = {spec.name: spec for spec in self.outputs}
        self._counts_only = any(spec.dims is not None and spec.dims.startswith("#") for spec in self.inputs)
        self.arity = arity
        self.ineffective = ineffective
        self.open_args = open_args
        self.effects = effects
        self.onnx = onnx
        self.source = source
        self.example = example
        self.module = module
        self.gradient_rule: GradientRule | NoGradient | None = no_gradient
        self.formulas: Formulas | None = None
        self.training_mode: TrainingMode | None = None
        self.prediction: Prediction | None = None
        self._infer: Callable[..., Any] | None = None
        self._cost: Callable[..., Cost] | None = None
        self._validate: Callable[[OpView], None] | None = None
        self._input_slots: Callable[[OpView, int], tuple[str, ...]] | None = None
        self._output_slots: Callable[[OpView, int], tuple[str, ...]] | None = None
        self._batched: tuple[frozenset[str], Callable[[OpView], bool] | None] = frozenset(), None

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs_by_letter), ", ".join(self.outputs_by_letter)
        return f"OpSchema({self.type}: {inputs} -> {outputs})"

    # -- decorators of the family file ---------------------------------------------------------------------------------

    def infer(self, function: F) -> F:
        """Add type-and-shape inference: `function(op, <input letters>)` -> TensorSpec, TypeSpec or a tuple of them.

        Absent optional inputs are None, variadic ones a tuple. Dimensions may be None (unknown).
        """
        self._infer = function
        return function

    def cost(self, function: F) -> F:
        """Add cost inference: `function(op, <input and output letters>)` -> Cost; only called with known shapes."""
        self._cost = function
        return function

    def validate(self, function: F) -> F:
        """Add a check of several arguments together: `function(op)` raises; run when an operator is made."""
        self._validate = function
        return function

    def gradient(
        self, maker: GradientMaker, *, copy_arguments: bool = True, copy_device: bool = True, copy_engine: bool = True
    ) -> GradientMaker:
        """Add the gradient maker; what is copied from the forward operator to the emitted ones can be switched off."""
        self.gradient_rule = GradientRule(maker, copy_arguments, copy_device, copy_engine)
        return maker

    def touches(self, function: F) -> F:
        """Say what nets among the arguments touch where only the schema knows: `function(op)` -> `Touched`.

        That is asked of `operator.touches`, which adds the blobs that the definition names. `certain` counts as it is
        given here, for outputs that the definition names as well.
        """
        self.touches_rule = function
        return function

    def name_inputs(self, function: F) -> F:
        """Say which letters the inputs stand for where that depends on arguments: `function(op, count)` -> letters."""
        self._input_slots = function
        return function

    def name_outputs(self, function: F) -> F:
        """Say which letters the outputs stand for where that depends on arguments: `function(op, count)` -> letters."""
        self._output_slots = function
        return function

    def batched(self, *letters: str, when: Callable[[OpView], bool] | None = None) -> None:
        """Declare that each image goes its own way: element n of every output depends on element n of these inputs.

        Their first dimension, and that of the outputs, is that of the images; other inputs are read for each of them.
        Where that depends on arguments, `when` says whether it is so. Elementwise operators need no declaration.
        """
        self._batched = frozenset(letters), when

    def trains_unless(self, argument: str, *outputs: str) -> None:
        """Declare a training mode: without `argument` = 1 the operator looks at the batch, draws or keeps statistics.

        `outputs` are those that only training makes. What is among them and must overwrite an input is state.
        """
        self.training_mode = TrainingMode(argument, frozenset(outputs))

    def predicts(self, *outputs: str) -> Callable[[F], F]:
        """Declare what makes these outputs where nobody wants the loss: `function(op)` -> operators without labels."""

        def declare(function: F) -> F:
            self.prediction = Prediction(frozenset(outputs), function)
            return function

        return declare

    # -- what is asked of a schema -------------------------------------------------------------------------------------

    @property
    def declares_batch(self) -> bool:
        """Whether `batched` was called."""
        return bool(self._batched[0])

    def batched_inputs(self, op: OpView) -> frozenset[str]:
        """Return the inputs whose first dimension is that of images which go their own ways; none where they do not."""
        letters, when = self._batched
        return letters if when is None or when(op) else frozenset()

    def own_effects(self, op: OpView) -> Effects:
        """Return what a run does by itself; `operator.trust.effects_of` adds what nets among the arguments do."""
        if self.effects is None:
            return Effects.IO
        return self.effects if isinstance(self.effects, Effects) else self.effects(op)

    @property
    def infers(self) -> bool:
        """Whether there is an infer function, beside what the patterns say."""
        return self._infer is not None

    @property
    def dynamic(self) -> bool:
        """Whether the size of an output depends on data."""
        return any(spec.dynamic for spec in self.outputs)

    def input_slots(self, op: OpView, count: int) -> tuple[str, ...]:
        """Return the letter of each of `count` inputs."""
        return _slots(self.inputs, count) if self._input_slots is None else self._input_slots(op, count)

    def output_slots(self, op: OpView, count: int) -> tuple[str, ...]:
        """Return the letter of each of `count` outputs."""
        return _slots(self.outputs, count) if self._output_slots is None else self._output_slots(op, count)

    def unknown_arguments(self, definition: OperatorDef) -> list[str]:
        """Return the names of arguments that have no effect: undeclared ones, and those that `ineffective` finds."""
        undeclared = [argument.name for argument in definition.arg if not self._knows(argument.name)]
        return undeclared if self.ineffective is None else undeclared + self.ineffective(definition)

    def reported_arguments(self, definition: OperatorDef) -> list[str]:
        """Return the unknown arguments of which people should hear; the format's own ones say nothing."""
        return [name for name in self.unknown_arguments(definition) if name not in BUILDER_ARGUMENTS]

    def view(self, definition: OperatorDef, *, strict: bool = False) -> OpView:
        """Check `definition` and return its typed view.

        Raises:
            SchemaError: number of blobs, or an in-place pair.
            ArgumentError: an argument is missing, mistyped, out of range, or (when `strict`) unknown.
        """
        op = self.typed_view(definition, strict=strict)
        self._check_in_place(op)
        if self._validate is not None:
            self._validate(op)
        return op

    def typed_view(self, definition: OperatorDef, *, strict: bool = False) -> OpView:
        """Return the view after counts and types were checked, but not which outputs overwrite which inputs.

        Raises:
            SchemaError: number of blobs.
            ArgumentError: as `view` does.
        """
        unknown = self.unknown_arguments(definition)
        if strict and unknown:
            known = ", ".join(sorted(self.args)) if self.args else "none"
            raise ArgumentError(
                f"{self.type} has no argument {', '.join(map(repr, unknown))}", hint=f"its arguments: {known}"
            )
        self._check_count("input", len(definition.input), self.inputs)
        self._check_count("output", len(definition.output), self.outputs)
        if self.arity is not None and not self.arity(len(definition.input), len(definition.output)):
            raise SchemaError(
                f"{self.type} does not take {len(definition.input)} inputs with {len(definition.output)} outputs"
            )
        given = {argument.name: argument for argument in reversed(definition.arg)}  # the first of a name counts
        arguments = dict(self._defaults)
        for name in (*self._required, *given):
            spec = self.args.get(name)
            if spec is not None:
                arguments[name] = self._argument(given.get(name), spec)
        return OpView(self, definition, arguments)

    def infer_specs(self, op: OpView, inputs: Sequence[Spec | None], known: Known | None = None) -> Inferred:
        """Return the specs of the outputs, as far as they follow from `inputs` (in order, None: unknown).

        Specs are logical: inputs may have any layout, outputs are given without one. `known` gives values of inputs
        that are constant.

        Raises:
            ShapeError, DTypeError: the inputs do not fit the operator or each other.
        """
        op = op.knowing(known)
        self.check_inputs(op, inputs)
        if self._infer is not None:
            nothing = (None,) * len(op.output_slots)
            result = nothing if None in inputs else self._infer(op, **gather(self.inputs, op.input_slots, inputs))
            specs = cast("tuple[Spec | None, ...]", result if isinstance(result, tuple) else (result,))
            if len(specs) != len(op.output_slots):
                raise SchemaError(
                    f"{self.type}: inference gave {len(specs)} outputs, the operator has {len(op.output_slots)}"
                )
        else:
            bindings = self._bind_letters(op, inputs)
            specs = tuple(
                self._follow(op, self.outputs_by_letter[letter], inputs, bindings) for letter in op.output_slots
            )
        return Inferred(tuple(logical(spec) for spec in specs), frozenset(op.reads))

    def infer_places(self, op: OpView, place: Place) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return the places of the inputs and outputs of an operator that runs on `place`."""
        inputs = tuple(CPUPlace() if self.inputs_by_letter[letter].host else place for letter in op.input_slots)
        return inputs, tuple(CPUPlace() if self.outputs_by_letter[letter].host else place for letter in op.output_slots)

    def check_inputs(self, op: OpView, inputs: Sequence[Spec | None]) -> None:
        """Check the kinds and dtypes of the inputs, and their shapes where the schema has patterns.

        Raises:
            ShapeError, DTypeError: an input does not fit.
        """
        for letter, spec in zip(op.input_slots, inputs, strict=True):
            self._check_input(op, letter, spec, inputs)
        self._bind_letters(op, inputs)

    def reshaped(self, op: OpView, inputs: Sequence[Spec | None]) -> dict[str, Dims]:
        """Return the shapes that kernels see of inputs which only have as many elements as others: `#S` in patterns."""
        if not self._counts_only:
            return {}
        bindings = self._bind_letters(op, inputs)
        found: dict[str, Dims] = {}
        for letter, spec in zip(op.input_slots, inputs, strict=True):
            pattern = self.inputs_by_letter[letter].dims
            if pattern is not None and pattern.startswith("#") and isinstance(spec, TensorSpec):
                wanted = bindings.extents.get(f"*{pattern[1:]}")
                if wanted is not None and spec.dims is not None and tuple(spec.dims) != wanted:
                    found[letter] = wanted
        return found

    def infer_cost(self, op: OpView, inputs: Sequence[Spec | None], outputs: Sequence[Spec]) -> Cost:
        """Return the cost of one run with these, fully known, specs."""
        if self._cost is not None:
            blobs = gather(self.inputs, op.input_slots, inputs) | gather(self.outputs, op.output_slots, outputs)
            return self._cost(op, **blobs)
        elements = max((spec.size for spec in outputs if isinstance(spec, TensorSpec)), default=0)
        return streamed(tuple(inputs), tuple(outputs), flops=elements)

    # -- pieces --------------------------------------------------------------------------------------------------------

    def _knows(self, name: str) -> bool:
        return name in self.args or (self.open_args is not None and self.open_args(name))

    def _argument(self, argument: Argument | None, spec: ArgSpec) -> Any:
        if argument is not None:
            try:
                return spec.read(argument)
            except ArgumentError as error:
                raise ArgumentError(f"{self.type}: {error.message}", hint=error.hint) from None
        if spec.required:
            raise ArgumentError(f"{self.type} needs the argument {spec.name!r}", hint=spec.doc if spec.doc else None)
        return spec.default

    def _check_count(self, noun: str, count: int, specs: tuple[BlobSpec, ...]) -> None:
        least = sum(not spec.optional for spec in specs)
        most = None if any(spec.variadic for spec in specs) else len(specs)
        if count < least or (most is not None and count > most):
            span = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
            letters = ", ".join(spec.name for spec in specs)
            raise SchemaError(
                f"{self.type} has {count} {noun}s, it takes {span}", hint=f"{noun}s: {letters}" if letters else None
            )

    def _check_in_place(self, op: OpView) -> None:
        outputs = op.definition.output
        for out_letter, out_name in zip(op.output_slots, outputs, strict=True):
            must = self.must_in_place.get(out_letter)
            if must is not None and op.has_input(must) and op.input_name(must) != out_name:
                raise SchemaError(
                    f"{self.type}: output {out_letter} = {out_name!r} must be in place of input "
                    f"{must} = {op.input_name(must)!r}",
                    hint=f"name the output {op.input_name(must)!r}",
                )
            self._check_aliases(op, out_letter, out_name)
        if len(set(outputs)) != len(outputs):
            raise SchemaError(f"{self.type} writes a blob twice: {', '.join(outputs)}")

    def _check_aliases(self, op: OpView, out_letter: str, out_name: str) -> None:
        allowed = {*self.in_place.get(out_letter, ()), self.must_in_place.get(out_letter)}
        for position, (letter, name) in enumerate(zip(op.input_slots, op.definition.input, strict=True)):
            # Of a variadic input only the first blob may be overwritten.
            if name == out_name and (letter not in allowed or position != op.input_slots.index(letter)):
                raise SchemaError(
                    f"{self.type} cannot write {out_letter} in place of {letter}: both are {name!r}",
                    hint="give the output a name of its own",
                )

    def _check_input(self, op: OpView, letter: str, spec: Spec | None, inputs: Sequence[Spec | None]) -> None:
        declared = self.inputs_by_letter[letter]
        if spec is None or declared.type_name == "*":
            return
        found = spec.type_name if isinstance(spec, TypeSpec) else TENSOR
        if not declared.takes_type(found):
            wanted = " or a ".join((declared.type_name or TENSOR, *declared.also))
            raise DTypeError(f"{self.type}: {letter} = {op.input_name(letter)!r} is a {found}, not a {wanted}")
        if isinstance(spec, TypeSpec):
            return
        self._check_quantization(letter, spec, declared)
        allowed = self._dtypes(op, declared, inputs)
        if allowed is not None and spec.dtype not in allowed:
            names = " or ".join(sorted(dtype.label for dtype in allowed))
            raise DTypeError(f"{self.type}: {letter} is {spec.dtype.label}, it must be {names}", hint="insert a Cast")

    def _check_quantization(self, letter: str, spec: TensorSpec, declared: BlobSpec) -> None:
        if type(spec.quantization) in declared.quantization:
            return
        wanted = " or ".join(sorted("plain" if one is type(None) else one.__name__ for one in declared.quantization))
        found = "plain" if spec.quantization is None else type(spec.quantization).__name__
        raise DTypeError(
            f"{self.type}: {letter} is {spec}, which is {found}; it must be {wanted}",
            hint="insert an Int8Quantize" if spec.quantization is None else "insert an Int8Dequantize",
        )

    def _bind_letters(self, op: OpView, inputs: Sequence[Spec | None]) -> Bindings:
        bindings = Bindings()
        for letter, spec in zip(op.input_slots, inputs, strict=True):
            pattern = self.inputs_by_letter[letter].dims
            if pattern is None or not isinstance(spec, TensorSpec):
                continue
            try:
                match(pattern, None if spec.dims is None else tuple(spec.dims), letter, bindings)
            except ShapeError as error:
                raise op.error(ShapeError, error.message, error.hint) from None
        return bindings

    def _dtypes(self, op: OpView, declared: BlobSpec, inputs: Sequence[Spec | None]) -> frozenset[DataType] | None:
        dtypes = declared.dtypes
        if isinstance(dtypes, DataType):
            return frozenset({dtypes})
        if isinstance(dtypes, str):
            if dtypes not in op.input_slots:
                return None
            other = inputs[op.input_slots.index(dtypes)]
            return frozenset({other.dtype}) if isinstance(other, TensorSpec) else None
        return dtypes

    def _follow(self, op: OpView, declared: BlobSpec, inputs: Sequence[Spec | None], bindings: Bindings) -> Spec | None:
        if declared.type_name is not None:
            return TypeSpec(declared.type_name)
        if declared.like is not None:
            return inputs[op.input_slots.index(declared.like)]
        if isinstance(declared.dtypes, str) and None in inputs:
            return None
        dtypes = self._dtypes(op, declared, inputs)
        if dtypes is None or len(dtypes) != 1 or (declared.dims is None and not declared.dynamic):
            raise SchemaError(
                f"{self.type}: dtype and shape of {declared.name} do not follow from the schema", hint="add @infer"
            )
        (dtype,) = dtypes
        return TensorSpec(None if declared.dims is None else fill(declared.dims, bindings), dtype)


def logical(spec: Spec | None) -> Spec | None:
    """Return the spec without layout and place, which are no matter of meaning."""
    if not isinstance(spec, TensorSpec) or (spec.layout == ROW_MAJOR and spec.place == CPUPlace()):
        return spec
    return TensorSpec(spec.dims, spec.dtype, quantization=spec.quantization)


def _slots(specs: tuple[BlobSpec, ...], count: int) -> tuple[str, ...]:
    """Return letters by position: required ones first, then optional ones; a variadic letter takes what is left."""
    widths = [0 if spec.optional else 1 for spec in specs]
    left = count - sum(widths)
    for position, spec in enumerate(specs):
        if spec.optional and not spec.variadic and left > 0:
            widths[position], left = 1, left - 1
    letters: list[str] = []
    for spec, width in zip(specs, widths, strict=True):
        letters.extend([spec.name] * (width + (max(left, 0) if spec.variadic else 0)))
    return tuple(letters)


def gather(declared: tuple[BlobSpec, ...], slots: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Return letter -> value for every declared letter: None where it is absent, a tuple where it is variadic."""
    found: dict[str, Any] = {spec.name: () if spec.variadic else None for spec in declared}
    variadic = {spec.name for spec in declared if spec.variadic}
    for letter, value in zip(slots, values, strict=True):
        found[letter] = (*found[letter], value) if letter in variadic else value
    return found

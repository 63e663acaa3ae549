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

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError
from tazza.operator.argument import ArgSpec, given_arguments
from tazza.operator.arity import LetterRow, Relation, all_named, output_count, wrong_numbers
from tazza.operator.cost import Cost, streamed
from tazza.operator.declared import (
    OneOf,
    Prediction,
    RowSums,
    TrainingMode,
    Undone,
    check_declaration,
    check_letters,
    check_nets_named,
)
from tazza.operator.effect import Effects
from tazza.operator.expression import Formulas
from tazza.operator.gradient import GradientMaker, GradientRule, NoGradient
from tazza.operator.in_place import InPlace, check_in_place, places_of
from tazza.operator.letter import TENSOR, BlobSpec, way_from
from tazza.operator.mistake import arguments_by_name, arguments_without_effect, check_parameters, reported_arguments
from tazza.operator.pattern import Bindings, Dims, fill, match
from tazza.operator.view import OpView, ValueOf
from tazza.proto import Argument, OperatorDef
from tazza.tensor import ROW_MAJOR, CPUPlace, DataType, Place, TensorSpec, TypeSpec

if TYPE_CHECKING:
    from tazza.operator.family import Family
    from tazza.operator.touches import Touched

Spec: TypeAlias = TensorSpec | TypeSpec
EffectsRule: TypeAlias = "Effects | Callable[[OpView], Effects]"
Condition: TypeAlias = "Callable[[OpView], bool] | None"
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Inferred:
    """What follows from inputs: a spec for each output (None: unknown), and the letters whose values were read."""

    specs: tuple[Spec | None, ...]
    reads: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rules:
    """The functions that decorators have added, for operators that are derived from this one."""

    infer: Callable[..., Any] | None
    cost: Callable[..., Cost] | None
    validate: Callable[[OpView], None] | None
    batched: tuple[frozenset[str], Condition]


class OpSchema:
    """All that is true of an operator type on any device. Made by `schema`; completed by its decorators."""

    declared_at: str = ""
    """File and line."""
    touches_rule: Callable[[OpView], Touched] | None = None
    one_of: OneOf | None = None
    commuting: str | None = None
    formulas: Formulas | None = None
    training_mode: TrainingMode | None = None
    prediction: Prediction | None = None
    row_sums: RowSums | None = None
    rate: str | None = None
    copying: bool = False
    second_name: bool = False
    row_type: str | None = None
    """The operator that does the same to rows that indices pick."""
    foreign: str | None = None
    """Why it runs nowhere, of an operator that can be read, shown and rewritten only."""
    family: Family[Any] | None = None
    """The table it is a row of."""
    base: OpSchema | None = None
    """The operator that it is with something behind it; see `operator.fused`."""
    _infer: Callable[..., Any] | None = None
    _cost: Callable[..., Cost] | None = None
    _validate: Callable[[OpView], None] | None = None
    _input_letters: Callable[[OpView, int], tuple[str, ...]] | None = None
    _output_letters: Callable[[OpView, int], tuple[str, ...]] | None = None
    _batched: tuple[frozenset[str], Condition] = frozenset(), None
    unbatched_outputs: frozenset[str] = frozenset()
    """Outputs that have no images where inputs have."""
    _hands_on: tuple[str, Condition] | None = None
    undone: Undone | None = None
    _reads_through: tuple[str, Condition] | None = None

    def __init__(
        self,
        type: str,
        doc: str,
        *,
        inputs: Sequence[BlobSpec],
        outputs: Sequence[BlobSpec],
        args: Iterable[ArgSpec],
        in_place: InPlace,
        must_in_place: InPlace,
        no_gradient: NoGradient | None,
        relations: Iterable[Relation],
        ineffective: Callable[[OperatorDef], list[str]] | None,
        open_args: Callable[[str], bool] | None,
        effects: EffectsRule | None,
        private: bool,
        inputs_can_cross_devices: bool,
        binds_nets: bool,
        lists_anything: bool,
        source: str,
        example: str,
        module: str,
    ) -> None:
        """See `schema`."""
        self.type = type
        self.doc = doc
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.args = arguments_by_name(type, tuple(args))
        self._defaults = {name: spec.default for name, spec in self.args.items()}
        self._required = tuple(name for name, spec in self.args.items() if spec.required)
        self.netless = frozenset(name for name, spec in self.args.items() if not spec.holds_nets)
        self.in_place = places_of(in_place, self.outputs)
        self.must_in_place = places_of(must_in_place, self.outputs)
        self.inputs_by_letter = {spec.name: spec for spec in self.inputs}
        self.outputs_by_letter = {spec.name: spec for spec in self.outputs}
        self._counts_only = any(spec.dims is not None and spec.dims.startswith("#") for spec in self.inputs)
        self.relations = tuple(relations)
        self._input_row = LetterRow("input", self.inputs, self.relations)
        self._output_row = LetterRow("output", self.outputs, self.relations)
        self.ineffective = ineffective
        self.open_args = open_args
        self.effects = effects
        self.private = private
        self.inputs_can_cross_devices = inputs_can_cross_devices
        self.binds_nets = binds_nets
        self.lists_anything = lists_anything
        self.source, self.example, self.module = source, example, module
        self.gradient_rule: GradientRule | NoGradient | None = no_gradient
        check_declaration(self)

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs_by_letter), ", ".join(self.outputs_by_letter)
        return f"OpSchema({self.type}: {inputs} -> {outputs})"

    # -- decorators of the family file ---------------------------------------------------------------------------------

    def infer(self, function: F) -> F:
        """Add type-and-shape inference: `function(op, <input letters>)` -> TensorSpec, TypeSpec or a tuple of them.

        Absent optional inputs are None, variadic ones a tuple. Dimensions may be None (unknown).
        """
        check_parameters(self, function, "infer", self.inputs_by_letter)
        self._infer = function
        return function

    def cost(self, function: F) -> F:
        """Add cost inference: `function(op, <input and output letters>)` -> Cost; only called with known shapes."""
        check_parameters(self, function, "cost", (*self.inputs_by_letter, *self.outputs_by_letter))
        self._cost = function
        return function

    def validate(self, function: F) -> F:
        """Add a check of several arguments together: `function(op)` raises; run when an operator is made."""
        self._validate = function
        return function

    def gradient(
        self,
        maker: GradientMaker,
        *,
        copy_arguments: bool = True,
        copy_device: bool = True,
        copy_engine: bool = True,
        unasked: bool = False,
    ) -> GradientMaker:
        """Add the gradient maker; what is copied from the forward operator to the emitted ones can be switched off.

        `copy_arguments=False` is for makers that give the arguments themselves: those of an operator with nets would
        be copied with the forward nets.

        `unasked`: it is called even where nothing gives the gradient of an output.

        Raises:
            SchemaError: nets are among the arguments, and neither `lists_anything` nor `binds_nets` is declared.
        """
        check_nets_named(self)
        self.gradient_rule = GradientRule(maker, copy_arguments, copy_device, copy_engine, unasked)
        return maker

    def touches(self, function: F) -> F:
        """Say what nets among the arguments touch where only the schema knows: `function(op)` -> `Touched`.

        That is asked of `operator.touches`, which adds the blobs that the definition names. `certain` counts as it is
        given here, for outputs that the definition names as well.
        """
        self.touches_rule = function
        return function

    def runs_one_of(self, *arguments: str, refused_without: Sequence[str] = ()) -> None:
        """Declare that a run runs exactly one of the nets in these arguments, in the workspace of the operator.

        A missing one does nothing; or, if it is in `refused_without`, the run that needs it is refused. What an
        operator touches follows.
        """
        check_letters(self.type, "runs_one_of", arguments, "argument", self.args)
        check_letters(self.type, "refused_without", refused_without, "argument", arguments)
        self.one_of = OneOf(arguments, frozenset(refused_without))

    def name_inputs(self, function: F) -> F:
        """Say which letters the inputs stand for where that depends on arguments: `function(op, count)` -> letters."""
        self._input_letters = function
        return function

    def name_outputs(self, function: F) -> F:
        """Say which letters the outputs stand for where that depends on arguments: `function(op, count)` -> letters."""
        self._output_letters = function
        return function

    def batched(self, *letters: str, when: Condition = None, but: Collection[str] = ()) -> None:
        """Declare that each image goes its own way: element n of every output depends on element n of these inputs.

        Their first dimension, and that of the outputs, is that of the images; other inputs are read for each of them.
        Where that depends on arguments, `when` says whether it is so; outputs `but` are the same for any images.
        Elementwise operators need no declaration.
        """
        check_letters(self.type, "batched", letters, "input", self.inputs_by_letter)
        check_letters(self.type, "batched", but, "output", self.outputs_by_letter)
        self._batched, self.unbatched_outputs = (frozenset(letters), when), frozenset(but)

    def hands_on(self, letter: str, *, when: Condition = None) -> None:
        """Declare that the first output equals the first input of a letter (where `when` says so)."""
        check_letters(self.type, "hands_on", [letter], "input", self.inputs_by_letter)
        self._hands_on = letter, when

    def names_again(self) -> None:
        """Declare that the first output is the first input by a second name: in Caffe2 both lie in one memory.

        Here each has its own. Rewrites that give memory to somebody else leave both alone, since nets that are written
        here may run there.
        """
        self.second_name = True

    def copies(self) -> None:
        """Declare that a run does nothing but copy, from one place to another maybe.

        On a device it is queued beside what computes, on streams and by a thread of copies; profiles show a copy.
        """
        self.copying = True

    def undone_by(self, type: str, *, when: Callable[[OpView, OpView], bool] | None = None) -> None:
        """Declare that an operator of that type, behind this one, gives back what this one got, to the last bit.

        Both have one input and one output. Where that depends on arguments, `when(op, behind)` says whether it is so.
        """
        self.undone = Undone(type, when)

    def reads_through(self, letter: str, *, when: Condition = None) -> None:
        """Declare that an operator with inputs of that letter reads nothing outside but what these read."""
        check_letters(self.type, "reads_through", [letter], "input", self.inputs_by_letter)
        self._reads_through = letter, when

    def commutes(self, letter: str) -> None:
        """Declare that the first two blobs of a variadic letter may change places, to the last bit."""
        check_letters(self.type, "commutes", [letter], "input", self.inputs_by_letter)
        self.commuting = letter

    def gives_rate(self, letter: str) -> None:
        """Declare the output that is the rate at which parameters are learned, which training shows."""
        check_letters(self.type, "gives_rate", [letter], "output", self.outputs_by_letter)
        self.rate = letter

    def trains_unless(self, argument: str, *outputs: str) -> None:
        """Declare a training mode: without `argument` = 1 the operator looks at the batch, draws or keeps statistics.

        `outputs` are those that only training makes. What is among them and must overwrite an input is state.
        """
        check_letters(self.type, "trains_unless", [argument], "argument", self.args)
        check_letters(self.type, "trains_unless", outputs, "output", self.outputs_by_letter)
        self.training_mode = TrainingMode(argument, frozenset(outputs))

    def predicts(self, *outputs: str) -> Callable[[F], F]:
        """Declare what makes these outputs where nobody wants the loss: `function(op)` -> operators without labels."""
        check_letters(self.type, "predicts", outputs, "output", self.outputs_by_letter)

        def declare(function: F) -> F:
            self.prediction = Prediction(frozenset(outputs), function)
            return function

        return declare

    # -- what is asked of a schema -------------------------------------------------------------------------------------

    @property
    def rules(self) -> Rules:
        """What decorators have added."""
        return Rules(self._infer, self._cost, self._validate, self._batched)

    @property
    def declares_batch(self) -> bool:
        """Whether `batched` was called."""
        return bool(self._batched[0])

    def batched_inputs(self, op: OpView) -> frozenset[str]:
        """Return the inputs whose first dimension is that of images which go their own ways; none where they do not."""
        letters, when = self._batched
        return letters if when is None or when(op) else frozenset()

    def gives_back(self, op: OpView, behind: OpView) -> bool:
        """Whether an operator that reads what `op` made gives what `op` read."""
        undone = self.undone
        return undone is not None and undone.type == behind.type and (undone.when is None or undone.when(op, behind))

    def readers_of(self, op: OpView) -> tuple[str, ...]:
        """Return the blobs through which alone an operator reads outside of the workspace; none where it opens some."""
        letter, when = (None, None) if self._reads_through is None else self._reads_through
        if letter is None or not (when is None or when(op)):
            return ()
        return tuple(name for name, own in zip(op.definition.input, op.input_letters, strict=True) if own == letter)

    def handed_on(self, op: OpView) -> int | None:
        """Return the position of the input that the first output equals, None where it equals none."""
        if self._hands_on is None or not op.has_input(self._hands_on[0]):
            return None
        letter, when = self._hands_on
        return op.input_letters.index(letter) if when is None or when(op) else None

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

    def input_letters(self, op: OpView, count: int) -> tuple[str, ...]:
        """Return the letter of each of `count` inputs."""
        if self._input_letters is not None:
            return all_named(self.type, "inputs", self._input_letters(op, count), count)
        return self._input_row.letters(count)

    def output_letters(self, op: OpView, count: int) -> tuple[str, ...]:
        """Return the letter of each of `count` outputs."""
        if self._output_letters is not None:
            return all_named(self.type, "outputs", self._output_letters(op, count), count)
        return self._output_row.letters(count)

    def output_count(self, inputs: int) -> int | None:
        """Return how many outputs an operator has with so many inputs, None where that does not follow from them."""
        return output_count(self.inputs, self.outputs, self.relations, inputs)

    def unknown_arguments(self, definition: OperatorDef) -> list[str]:
        """Return the names of arguments that have no effect: undeclared ones, and those that `ineffective` finds."""
        undeclared = [argument.name for argument in definition.arg if not self._knows(argument.name)]
        return undeclared if self.ineffective is None else undeclared + self.ineffective(definition)

    def reported_arguments(self, definition: OperatorDef) -> list[str]:
        """Return what people should hear of arguments without effect; the format's own ones say nothing."""
        return reported_arguments(self.type, self.unknown_arguments(definition), self.args)

    def view(self, definition: OperatorDef, *, strict: bool = False, batch_invariant: bool = False) -> OpView:
        """Check `definition` and return its typed view; `batch_invariant` is what its net says of that.

        Raises:
            SchemaError: number of blobs, or an in-place pair.
            ArgumentError: an argument is missing, mistyped, out of range, or (when `strict`) unknown.
        """
        op = self.typed_view(definition, strict=strict)
        check_in_place(op)
        if self._validate is not None:
            self._validate(op)
        op.of_invariant_net = batch_invariant
        return op

    def typed_view(self, definition: OperatorDef, *, strict: bool = False) -> OpView:
        """Return the view after counts and types were checked, but not which outputs overwrite which inputs.

        Raises:
            SchemaError: number of blobs.
            ArgumentError: as `view` does.
        """
        if strict and (unknown := self.unknown_arguments(definition)):
            raise arguments_without_effect(self.type, unknown, self.args)
        self._input_row.check(self.type, len(definition.input))
        self._output_row.check(self.type, len(definition.output))
        given = given_arguments(definition)
        arguments = dict(self._defaults)
        for name in (*self._required, *given):
            spec = self.args.get(name)
            if spec is not None:
                arguments[name] = self._argument(given.get(name), spec)
        op = OpView(self, definition, arguments)
        if self.relations:
            self._check_relations(op)
        return op

    def infer_specs(self, op: OpView, inputs: Sequence[Spec | None], values: ValueOf | None = None) -> Inferred:
        """Return the specs of the outputs, as far as they follow from `inputs` (in order, None: unknown).

        Specs are logical: inputs may have any layout, outputs are given without one. `values` gives those of inputs
        that are constant.

        Raises:
            ShapeError, DTypeError: the inputs do not fit the operator or each other.
        """
        op = op.with_values(values)
        self.check_inputs(op, inputs)
        if self._infer is not None:
            nothing = (None,) * len(op.output_letters)
            result = nothing if None in inputs else self._infer(op, **gather(self.inputs, op.input_letters, inputs))
            specs = cast("tuple[Spec | None, ...]", result if isinstance(result, tuple) else (result,))
            if len(specs) != len(op.output_letters):
                raise SchemaError(
                    f"{self.type}: inference gave {len(specs)} outputs, the operator has {len(op.output_letters)}"
                )
        else:
            bindings = self._bind_letters(op, inputs)
            specs = tuple(self._follow(op, position, inputs, bindings) for position in range(len(op.output_letters)))
        return Inferred(tuple(logical(spec) for spec in specs), frozenset(op.reads))

    def infer_places(self, op: OpView, place: Place) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return the places of the inputs and outputs of an operator that runs on `place`."""
        inputs = tuple(CPUPlace() if self.inputs_by_letter[letter].host else place for letter in op.input_letters)
        return inputs, tuple(
            CPUPlace() if self.outputs_by_letter[letter].host else place for letter in op.output_letters
        )

    def check_inputs(self, op: OpView, inputs: Sequence[Spec | None]) -> None:
        """Check the kinds and dtypes of the inputs, and their shapes where the schema has patterns.

        Raises:
            ShapeError, DTypeError: an input does not fit.
        """
        for letter, spec in zip(op.input_letters, inputs, strict=True):
            self._check_input(op, letter, spec, inputs)
        self._bind_letters(op, inputs)

    def check_input(self, op: OpView, letter: str, spec: Spec) -> None:
        """Check the kind and element type of one input, whose dtype is not that of another one.

        Raises:
            DTypeError: it does not fit.
        """
        self._check_input(op, letter, spec, (None,) * len(op.input_letters))

    def reshaped(self, op: OpView, inputs: Sequence[Spec | None]) -> dict[str, Dims]:
        """Return the shapes that kernels see of inputs which only have as many elements as others: `#S` in patterns."""
        if not self._counts_only:
            return {}
        bindings = self._bind_letters(op, inputs)
        found: dict[str, Dims] = {}
        for letter, spec in zip(op.input_letters, inputs, strict=True):
            pattern = self.inputs_by_letter[letter].dims
            if pattern is not None and pattern.startswith("#") and isinstance(spec, TensorSpec):
                wanted = bindings.extents.get(f"*{pattern[1:]}")
                if wanted is not None and spec.dims is not None and tuple(spec.dims) != wanted:
                    found[letter] = wanted
        return found

    def infer_cost(self, op: OpView, inputs: Sequence[Spec | None], outputs: Sequence[Spec]) -> Cost:
        """Return the cost of one run with these, fully known, specs."""
        if self._cost is not None:
            return self._cost(op, **gather_all(op, (*inputs, *outputs)))
        if len(self.netless) < len(self.args):  # what costs are the operators of its nets
            return Cost()
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

    def _check_relations(self, op: OpView) -> None:
        counts = dict.fromkeys((*self.inputs_by_letter, *self.outputs_by_letter), 0)
        for letter in (*op.input_letters, *op.output_letters):
            counts[letter] += 1
        wrong = wrong_numbers(self.relations, counts)
        if wrong is not None:
            given = f"{len(op.input_letters)} inputs with {len(op.output_letters)} outputs"
            raise SchemaError(f"{self.type} does not take {given}: {wrong}", hint=f"{self!r}")

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
            hint=way_from(spec.quantization, declared),
        )

    def _bind_letters(self, op: OpView, inputs: Sequence[Spec | None]) -> Bindings:
        bindings = Bindings()
        for letter, spec in zip(op.input_letters, inputs, strict=True):
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
        if isinstance(dtypes, str):
            if dtypes not in op.input_letters:
                return None
            other = inputs[op.input_letters.index(dtypes)]
            return frozenset({other.dtype}) if isinstance(other, TensorSpec) else None
        return declared.taken_on(host=not declared.elsewhere or op.on_host)

    def _follow(self, op: OpView, position: int, inputs: Sequence[Spec | None], bindings: Bindings) -> Spec | None:
        letter = op.output_letters[position]
        declared = self.outputs_by_letter[letter]
        if declared.type_name is not None and not declared.open:
            return TypeSpec(declared.type_name)
        if declared.like is not None:
            alike = [spec for other, spec in zip(op.input_letters, inputs, strict=True) if other == declared.like]
            # Where there are as many of both, each is like its own; else all are like the first.
            return alike[
                op.output_letters[:position].count(letter) if len(alike) == op.output_letters.count(letter) else 0
            ]
        if declared.open or (isinstance(declared.dtypes, str) and None in inputs):
            return None
        dtypes = self._dtypes(op, declared, inputs)
        if declared.dynamic and (dtypes is None or len(dtypes) != 1):
            return None
        if dtypes is None or len(dtypes) != 1 or (declared.dims is None and not declared.dynamic):
            message = f"{self.type}: dtype and shape of {declared.name} do not follow from the schema"
            raise SchemaError(message, hint="add @infer")
        return TensorSpec(None if declared.dims is None else fill(declared.dims, bindings), next(iter(dtypes)))


def logical(spec: Spec | None) -> Spec | None:
    """Return the spec without layout and place, which are no matter of meaning."""
    if not isinstance(spec, TensorSpec) or (spec.layout == ROW_MAJOR and spec.place == CPUPlace()):
        return spec
    return TensorSpec(spec.dims, spec.dtype, quantization=spec.quantization)


def gather_all(op: OpView, values: Sequence[Any]) -> dict[str, Any]:
    """Return letter -> value for all that an operator reads and writes, in this order; see `gather`."""
    schema, count = op.schema, len(op.input_letters)
    read = gather(schema.inputs, op.input_letters, values[:count])
    return read | gather(schema.outputs, op.output_letters, values[count:])


def gather(declared: tuple[BlobSpec, ...], letters: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """Return letter -> value for every declared letter: None where it is absent, a tuple where it is variadic."""
    found: dict[str, Any] = {spec.name: () if spec.variadic else None for spec in declared}
    variadic = {spec.name for spec in declared if spec.variadic}
    for letter, value in zip(letters, values, strict=True):
        found[letter] = (*found[letter], value) if letter in variadic else value
    return found

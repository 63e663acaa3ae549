"""Gradients of operators: from an `OperatorDef` and the names of its output gradients to further OperatorDefs.

    @RELU.gradient
    def relu_gradient(g):
        return g.emit("ReluGradient", [g.Y, g.dY], [g.dX])

`g.X` and `g.Y` are the blobs of the forward operator by the schema's letters, `g.dY` the gradient of an output,
`g.dX` the gradient of an input: asking for the latter declares that it is given. By position: `g.I(i)`, `g.O(i)`,
`g.GO(i)`, `g.GI(i)`. Gradients of some rows are pairs of blobs, indices and values: `RowSlices` of names.

`g.X` of an input that the operator has overwritten in place is an error, since its value is gone; `g.like("X")` asks
for its dtype and shape alone, which stand. What a gradient operator reads of the forward one and its maker did not ask
for is refused: a name taken from `g.definition` says nothing of what is left of the value. A maker may write `g.dX` in
several steps: the last one is the gradient.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tazza.data_class import dataclass
from tazza.errors import GradientError, TazzaError
from tazza.operator.definition import make_argument
from tazza.proto import NetDef, OperatorDef
from tazza.registry import Hook
from tazza.tensor.rows import RowSlices

if TYPE_CHECKING:
    from tazza.operator.view import OpView


Gradient: TypeAlias = "str | RowSlices[str] | None"
"""Name of a dense gradient blob, the two of a gradient of some rows, or None where there is no gradient."""


class GradientKind(enum.Enum):
    """Why an operator has no gradient maker."""

    ENDS = "ends"
    """The backward pass ends here quietly."""
    STOPS = "stops"
    """The backward pass ends here, which is what the operator is for: one that nothing reads is a mistake."""
    FORBIDDEN = "forbidden"
    """Asking for it is a mistake in the net."""
    MISSING = "missing"
    """Mathematically there, not written."""


@dataclass(frozen=True, slots=True)
class NoGradient:
    """Declares that an operator has no gradient, of which kind, and why."""

    kind: GradientKind
    reason: str

    @property
    def quiet(self) -> bool:
        """Whether asking for the gradient is no mistake."""
        return self.kind in (GradientKind.ENDS, GradientKind.STOPS)


def ends(reason: str) -> NoGradient:
    """The backward pass ends at this operator, quietly."""
    return NoGradient(GradientKind.ENDS, reason)


def stops(reason: str) -> NoGradient:
    """The backward pass ends at this operator, since it is there for that."""
    return NoGradient(GradientKind.STOPS, reason)


def forbidden(reason: str) -> NoGradient:
    """Asking for the gradient is an error."""
    return NoGradient(GradientKind.FORBIDDEN, reason)


def not_written(reason: str) -> NoGradient:
    """The gradient exists in principle, but nobody wrote it."""
    return NoGradient(GradientKind.MISSING, reason)


@dataclass(frozen=True, slots=True)
class Derivative:
    """The backward pass of a net within an operator.

    Args:
        ops: the gradient operators.
        given: for each blob the gradient of what it held before the net ran; a blob that the net overwrites without
            reading it has none, one that the net leaves alone has that which it was given.
    """

    ops: tuple[OperatorDef, ...]
    given: Mapping[str, Gradient]


DERIVATIVE: Hook[Callable[[NetDef, Mapping[str, Gradient]], Derivative]] = Hook("derivative", "tazza.graph.backward")


class GradientRequest:
    """What a gradient maker works with; collects the gradients of the inputs that it names."""

    def __init__(self, op: OpView, output_gradients: Sequence[Gradient], name_of: Callable[[str, int], str]) -> None:
        """Ask for the gradient of `op`, given those of its outputs; `name_of(blob, i)` names that of input i."""
        self.op = op
        self.definition = op.definition
        self.output_gradients = list(output_gradients)
        self.input_gradients: list[Gradient] = [None] * len(op.definition.input)
        self.lost: dict[int, str] = {}
        self.asked: set[str] = set()
        self.derived: list[tuple[Derivative, Mapping[str, str]]] = []
        self.name_of = name_of

    def I(self, index: int) -> str:  # noqa: E743 -- the letter that every Caffe2 gradient maker uses
        """Name of input `index`, whose value the gradient reads.

        Raises:
            GradientError: the operator has overwritten it.
        """
        name = self.definition.input[index]
        if name in self.definition.output:
            letter = self.op.input_letters[index]
            raise GradientError(
                f"the gradient of {self.op.type} needs its input {letter} {name!r}, which it overwrites in place",
                hint="give the output a name of its own",
            )
        self.asked.add(name)
        return name

    def like(self, which: str | int) -> str:
        """Name of an input, by letter or index, whose dtype and shape alone are read; it may have been overwritten."""
        name = self._input(which)
        self.asked.add(name)
        return name

    def in_place(self, letter: str) -> bool:
        """Whether the operator overwrites the input of a letter."""
        return self._input(letter) in self.definition.output

    def _input(self, which: str | int) -> str:
        return self.definition.input[self.op.input_letters.index(which) if isinstance(which, str) else which]

    def lose(self, letter: str, needed: str) -> str:
        """Name the gradient of the input of a letter, which comes out wrong: the input `needed` was overwritten.

        That is an error only where somebody asks for it.
        """
        index = self.op.input_letters.index(letter)
        self.lost[index] = f"needs {needed} {self._input(needed)!r}, which {self.op.type} overwrites in place"
        return self.name_of(self.definition.input[index], index)

    def O(self, index: int) -> str:  # noqa: E743
        """Name of output `index`."""
        self.asked.add(self.definition.output[index])
        return self.definition.output[index]

    def GO(self, index: int) -> str:
        """Name of the dense gradient of output `index`.

        Raises:
            GradientError: there is none, or it is sparse.
        """
        gradient = self.output_gradients[index]
        if gradient is None:
            raise GradientError(
                f"{self.op.type} needs the gradient of its output {self.O(index)!r}, nothing gives it",
                hint="use the output in what the loss depends on, or give its gradient",
            )
        if isinstance(gradient, RowSlices):
            raise GradientError(
                f"{self.op.type}: the gradient of output {self.O(index)!r} is sparse, a dense one is needed"
            )
        return gradient

    def GI(self, index: int) -> str:
        """Name the dense gradient of input `index`, declaring that it is given."""
        name = self.name_of(self.definition.input[index], index)
        self.input_gradients[index] = name
        return name

    def __getattr__(self, name: str) -> str:
        """Return the blob of a letter, or with `d` in front the gradient of one."""
        letters_in, letters_out = self.op.input_letters, self.op.output_letters
        if name in letters_in:
            return self.I(letters_in.index(name))
        if name in letters_out:
            return self.O(letters_out.index(name))
        letter = name.removeprefix("d")
        if letter != name and letter in letters_out and letter not in letters_in:
            return self.GO(letters_out.index(letter))
        if letter != name and letter in letters_in:
            return self.GI(letters_in.index(letter))
        raise AttributeError(f"{self.op.type} has no blob {name!r} here: inputs {letters_in}, outputs {letters_out}")

    def pass_to(self, index: int, gradient: Gradient) -> None:
        """Declare that the gradient of input `index` is this one, made by nobody here."""
        self.input_gradients[index] = gradient

    def sparse(self, index: int, indices: str | None = None, values: str | None = None) -> RowSlices[str]:
        """Declare a sparse gradient of input `index`; blobs that are not given are named after the input."""
        base = self.name_of(self.definition.input[index], index)
        gradient = RowSlices(
            f"{base}_indices" if indices is None else indices, f"{base}_values" if values is None else values
        )
        self.input_gradients[index] = gradient
        return gradient

    def backward(
        self, net: NetDef, targets: Mapping[str, Gradient], names: Mapping[str, str] | None = None
    ) -> Derivative:
        """Return the derivative of a net within the operator, given the gradients of what it leaves.

        It reads blobs as the net left them. `names` gives those of the workspace for names of the net, where it has
        names of its own.

        Raises:
            GradientError: it has none.
        """
        found = DERIVATIVE.get()(net, targets)
        self.derived.append((found, {} if names is None else names))
        return found

    def emit(self, type: str, inputs: Sequence[str], outputs: Sequence[str], **arguments: Any) -> list[OperatorDef]:
        """Return one OperatorDef, as a list; its arguments come before those copied from the forward operator."""
        definition = OperatorDef(
            type=type, input=list(inputs), output=list(outputs), name=""
        )  # Caffe2 sets the empty name
        definition.arg.extend(make_argument(key, value) for key, value in arguments.items())
        return [definition]


GradientMaker: TypeAlias = Callable[[GradientRequest], "list[OperatorDef]"]


GradientFunction: TypeAlias = (
    "Callable[[OperatorDef, Sequence[Gradient]], tuple[Sequence[OperatorDef], Sequence[Gradient]]]"
)
"""From an operator and the gradients of its outputs to the gradient operators and the gradients of its inputs."""

_functions: dict[str, GradientFunction] = {}


def register_gradient(type: str, function: GradientFunction) -> None:
    """Let a function give the gradient of an operator type for which no family file does; the last one counts.

    The type need not have a schema, so that nets can be differentiated that run elsewhere. The function chooses the
    names of what its operators write.

    >>> from tazza.operator.definition import operator_def
    >>> def half(op, gradients):
    ...     return [operator_def("Scale", list(gradients), ["dx"], scale=0.5)], ["dx"]
    >>> register_gradient("DocHalf", half)
    >>> from tazza.graph import backward_pass
    >>> backward_pass([operator_def("DocHalf", ["x"], ["y"])], {"y": "dy"})[1]["x"]
    'dx'
    >>> forget_gradient("DocHalf")
    """
    _functions[type] = function


def forget_gradient(type: str) -> None:
    """Take back what `register_gradient` gave."""
    _functions.pop(type, None)


def is_told(type: str) -> bool:
    """Whether `register_gradient` gave a function for an operator type."""
    return type in _functions


class ToldRequest(GradientRequest):
    """What a registered function has answered: it may read all that the operator names."""

    def __init__(
        self, definition: OperatorDef, output_gradients: Sequence[Gradient], given: Sequence[Gradient]
    ) -> None:
        """Note the gradients of the inputs.

        Raises:
            GradientError: there is not one for each input.
        """
        if len(given) != len(definition.input):
            raise GradientError(
                f"the gradient function of {definition.type} gives {len(given)} gradients for "
                f"{len(definition.input)} inputs",
                hint="return one for each input, None where there is none",
            )
        self.definition = definition
        self.output_gradients = list(output_gradients)
        self.input_gradients = list(given)
        self.lost = {}
        self.asked = {*definition.input, *definition.output}
        self.derived = []


def told_request(
    definition: OperatorDef, output_gradients: Sequence[Gradient], rule: GradientRule | NoGradient | None
) -> tuple[list[OperatorDef], GradientRequest] | None:
    """Return what a registered function says of an operator for which `rule` says nothing; None without one.

    Raises:
        GradientError: it does not give a gradient for each input.
    """
    missing = rule is None or (isinstance(rule, NoGradient) and rule.kind is GradientKind.MISSING)
    function = _functions.get(definition.type) if missing else None
    if function is None:
        return None
    emitted, given = function(definition, output_gradients)
    copies: list[OperatorDef] = []
    for one in emitted:
        copy = OperatorDef()
        copy.CopyFrom(one)
        copies.append(copy)
    return copies, ToldRequest(definition, output_gradients, given)


@dataclass(frozen=True, slots=True)
class GradientRule:
    """A gradient maker, and what the operators it emits copy from the forward operator."""

    maker: GradientMaker
    copy_arguments: bool = True
    copy_device: bool = True
    copy_engine: bool = True
    unasked: bool = False
    """The maker is called even where nothing gives the gradient of an output."""


def gradient_name(blob: str) -> str:
    """Return the name of the gradient of a blob.

    >>> gradient_name("x")
    'x_grad'
    """
    return f"{blob}_grad"


def gradient_for_op(op: OpView, output_gradients: Sequence[Gradient]) -> tuple[list[OperatorDef], list[Gradient]]:
    """Return the OperatorDefs of the gradient of one operator, and the gradients of its inputs.

    Raises:
        GradientError: the operator's gradient is forbidden, not written, or needs an output gradient that is not there.
    """
    definitions, request = answered_request(op, output_gradients, lambda blob, _: gradient_name(blob))
    return definitions, request.input_gradients


def answered_request(
    op: OpView, output_gradients: Sequence[Gradient], name_of: Callable[[str, int], str]
) -> tuple[list[OperatorDef], GradientRequest]:
    """Return the OperatorDefs of the gradient of one operator, and the request that its maker has answered.

    Raises:
        GradientError: as `gradient_for_op`.
    """
    rule = op.schema.gradient_rule
    if isinstance(rule, NoGradient) and rule.quiet:
        return [], GradientRequest(op, output_gradients, name_of)
    if not isinstance(rule, GradientRule):
        why = "no rule is declared" if rule is None else rule.reason
        verb = (
            "must not be asked for its gradient"
            if rule is not None and rule.kind is GradientKind.FORBIDDEN
            else "has no gradient yet"
        )
        raise GradientError(f"{op.type} {verb}: {why}", hint="cut the path with StopGradient")
    request = GradientRequest(op, output_gradients, name_of)
    with _making(op.type, rule.maker):
        definitions = rule.maker(request)
        _check_emitted(definitions)
    for definition in definitions:
        _inherit(definition, op.definition, rule)
    return definitions, request


@contextmanager
def _making(type: str, maker: Callable[..., Any]) -> Generator[None]:
    """Say of an error within of which operator the gradient is made, and where its maker stands.

    Raises:
        GradientError: the maker failed by a mistake of its own.
        TazzaError: what was raised within.
    """
    try:
        yield
    except TazzaError as error:
        error.add_context(_maker_at(type, maker))
        raise
    except (AttributeError, TypeError, NameError, LookupError, ValueError) as error:
        failed = GradientError(
            f"the gradient maker of {type} failed: {error.__class__.__name__}: {error}",
            hint="in it g.X and g.Y are the blobs of the operator by the letters of its schema, g.dY and g.dX their "
            "gradients, g.op its arguments",
        )
        failed.add_context(_maker_at(type, maker))
        try:
            raise failed from error
        finally:
            del failed  # its traceback holds this frame


def _check_emitted(definitions: object) -> None:
    from tazza.operator.registry import SCHEMAS  # whose schemas hold the rules of this module

    if not isinstance(definitions, list):
        raise GradientError(f"it returned {definitions!r}", hint="a list of operators, as g.emit(...) gives it")
    for definition in cast("list[OperatorDef]", definitions):
        if definition.type not in SCHEMAS:
            raise GradientError(
                f"it emits {definition.type!r}, which is no operator", hint=SCHEMAS.near(definition.type)
            )


def _maker_at(type: str, maker: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(maker), "__code__", None)
    place = "" if code is None else f", {code.co_filename}, line {code.co_firstlineno}"
    return f"in the gradient maker of {type}{place}"


def _inherit(definition: OperatorDef, forward: OperatorDef, rule: GradientRule) -> None:
    definition.is_gradient_op = True
    if forward.debug_info:
        definition.debug_info = forward.debug_info
    if rule.copy_device and forward.HasField("device_option"):
        definition.device_option.CopyFrom(forward.device_option)
    if rule.copy_engine and forward.HasField("engine"):
        definition.engine = forward.engine
    if rule.copy_arguments:
        definition.arg.extend(forward.arg)

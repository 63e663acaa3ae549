"""Two operators as one, where nobody can see the difference: a layer, and an activation that overwrites its result.

    y = Conv(x, W, b)
    y = Relu(y)          ->    y = FusedConv(x, W, b; epilogue="relu(y)")

The net type `simple` runs such pairs; every blob holds afterwards what it would hold without. So the activation must
overwrite the one blob that the layer writes, and its formula must not round: then the bits are the same as well.
"""

from __future__ import annotations

from tazza.device import place_of
from tazza.operator import Expression, find_schema, formulas_of
from tazza.operator.choice import takes_epilogue
from tazza.operator.definition import make_argument
from tazza.proto import OperatorDef


def may_pair(first: OperatorDef, second: OperatorDef) -> bool:
    """Whether the second operator overwrites the only output of the first, and neither asks for an engine.

    >>> from tazza.operator import operator_def
    >>> may_pair(operator_def("Conv", ["x", "W"], ["y"]), operator_def("Relu", ["y"], ["y"]))
    True
    >>> may_pair(operator_def("Conv", ["x", "W"], ["y"]), operator_def("Relu", ["y"], ["z"]))
    False
    """
    written = list(first.output)
    return (
        len(written) == 1
        and written == list(second.input) == list(second.output)
        and written[0] not in first.input
        and not first.engine
        and not second.engine
        and first.device_option == second.device_option
        and not (first.control_input or second.control_input)
    )


def paired(first: OperatorDef, second: OperatorDef) -> OperatorDef | None:
    """Return the operator that does what both do, None when there is none, or none that an engine is made for."""
    if not may_pair(first, second):
        return None
    # Families are loaded only now: few nets have such pairs of names.
    from tazza.ops.nn.fused import FUSED, fused_type

    if first.type not in FUSED:
        return None
    fused = fused_type(find_schema(first.type).view(first))
    epilogue = None if fused is None else _epilogue(second)
    if fused is None or epilogue is None or not takes_epilogue(fused, epilogue, place_of(first.device_option).kind):
        return None
    made = OperatorDef()
    made.CopyFrom(first)
    made.type = fused
    made.arg.extend([make_argument("operands", 0), make_argument("epilogue", epilogue.text())])
    return made


def _epilogue(definition: OperatorDef) -> Expression | None:
    """Return the formula of an activation over y, None when it has none that is exact."""
    schema = find_schema(definition.type)
    if schema.formulas is None:
        return None
    op = schema.view(definition)
    ((_, formula),) = formulas_of(op).items()
    if not formula.exact or len(formula.names) != 1:
        return None
    return formula.substitute({formula.names[0]: Expression.parse("y")})

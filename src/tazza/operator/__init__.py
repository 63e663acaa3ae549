"""What an operator is: schema, registries, arguments, gradients, kernels, and the operator itself."""

from tazza.operator.argument import REQUIRED, ArgSpec, arg, find_argument, stored_fields
from tazza.operator.arity import as_many, pairs, together
from tazza.operator.choice import Choice, Chosen, choose_kernel
from tazza.operator.cost import Cost, streamed
from tazza.operator.definition import make_argument, operator_def
from tazza.operator.effect import Effects
from tazza.operator.engine import ENGINES, Candidate, Engine, engine, prefer_engines, rank_engines, why_unavailable
from tazza.operator.expression import formula, formulas_of, scalars_of, with_arguments
from tazza.operator.family import Family, family, gradients_of
from tazza.operator.function import forget_function, operator_of, register_function
from tazza.operator.fused import Tail, fused
from tazza.operator.gradient import (
    Gradient,
    GradientKind,
    GradientRequest,
    NoGradient,
    ends,
    forbidden,
    forget_gradient,
    gradient_for_op,
    gradient_name,
    not_written,
    register_gradient,
    stops,
)
from tazza.operator.in_place import anything, beside, each, may_overwrite, must_overwrite
from tazza.operator.index import ANY
from tazza.operator.kernel import (
    KERNELS,
    Array,
    Call,
    CallChain,
    DynamicOutput,
    Kernel,
    LaidOut,
    Launch,
    LaunchChain,
    Movable,
    NativeCall,
    Operands,
    SizedLaunch,
    Unsupported,
    contiguous,
    host_kernel,
    kernel,
    kernel_for,
    kernel_key,
    launcher,
)
from tazza.operator.letter import FLOAT, HALVES, INDEX, NUMBERS, PER_CHANNEL, PER_ROW, PER_TENSOR, PLAIN, BlobSpec, blob
from tazza.operator.local import LocalBlobs
from tazza.operator.observable import Observable, Observer
from tazza.operator.one_value import one_value
from tazza.operator.operator import Operator, definition_hooks, ignored_text
from tazza.operator.owned import OwnedNets, attach_throughout, detach_throughout
from tazza.operator.owner import BlobOwner, RunnableNet
from tazza.operator.pattern import Dims, show_dims
from tazza.operator.registry import SCHEMAS, find_schema, schema
from tazza.operator.role import Role
from tazza.operator.row_program import Cut, RowProgram, Total, row_program
from tazza.operator.run import run_op
from tazza.operator.schema import OpSchema, Spec
from tazza.operator.touches import Touched, read_first, touched_by, touches
from tazza.operator.trust import check_trust, effects_of
from tazza.operator.view import OpView
from tazza.runtime.modules import watch
from tazza.tensor.expression import Expression
from tazza.tensor.rows import RowSlices

for _registry in (SCHEMAS, KERNELS, ENGINES):
    watch(_registry)

__all__ = [
    "ANY",
    "ENGINES",
    "FLOAT",
    "HALVES",
    "INDEX",
    "KERNELS",
    "NUMBERS",
    "PER_CHANNEL",
    "PER_ROW",
    "PER_TENSOR",
    "PLAIN",
    "REQUIRED",
    "SCHEMAS",
    "ArgSpec",
    "Array",
    "BlobOwner",
    "BlobSpec",
    "Call",
    "CallChain",
    "Candidate",
    "Choice",
    "Chosen",
    "Cost",
    "Cut",
    "Dims",
    "DynamicOutput",
    "Effects",
    "Engine",
    "Expression",
    "Family",
    "Gradient",
    "GradientKind",
    "GradientRequest",
    "Kernel",
    "LaidOut",
    "Launch",
    "LaunchChain",
    "LocalBlobs",
    "Movable",
    "NativeCall",
    "NoGradient",
    "Observable",
    "Observer",
    "OpSchema",
    "OpView",
    "Operands",
    "Operator",
    "OwnedNets",
    "Role",
    "RowProgram",
    "RowSlices",
    "RunnableNet",
    "SizedLaunch",
    "Spec",
    "Tail",
    "Total",
    "Touched",
    "Unsupported",
    "anything",
    "arg",
    "as_many",
    "attach_throughout",
    "beside",
    "blob",
    "check_trust",
    "choose_kernel",
    "contiguous",
    "definition_hooks",
    "detach_throughout",
    "each",
    "effects_of",
    "ends",
    "engine",
    "family",
    "find_argument",
    "find_schema",
    "forbidden",
    "forget_function",
    "forget_gradient",
    "formula",
    "formulas_of",
    "fused",
    "gradient_for_op",
    "gradient_name",
    "gradients_of",
    "host_kernel",
    "ignored_text",
    "kernel",
    "kernel_for",
    "kernel_key",
    "launcher",
    "make_argument",
    "may_overwrite",
    "must_overwrite",
    "not_written",
    "one_value",
    "operator_def",
    "operator_of",
    "pairs",
    "prefer_engines",
    "rank_engines",
    "read_first",
    "register_function",
    "register_gradient",
    "row_program",
    "run_op",
    "scalars_of",
    "schema",
    "show_dims",
    "stops",
    "stored_fields",
    "streamed",
    "together",
    "touched_by",
    "touches",
    "why_unavailable",
    "with_arguments",
]

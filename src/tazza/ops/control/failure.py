"""Operators that fail, for those who test what happens then: Fail, ThrowException and their like."""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.errors import RaisedError, RunFailedError
from tazza.operator import Effects, NoGradient, OpSchema, OpView, family, forbidden, host_kernel, not_written, schema

NO_GRADIENT = forbidden("it has no output")


@dataclass(frozen=True, slots=True)
class Failure:
    """How Caffe2 failed, and what is raised here."""

    there: str
    no_gradient: NoGradient = NO_GRADIENT
    error: type[RaisedError] = RaisedError


@family(
    {
        "Fail": Failure("the run of its net failed", error=RunFailedError),
        "ThrowException": Failure("an exception"),
        "ThrowChildThreadException": Failure("an exception on a thread of its own, which ended the process"),
        "LogFatal": Failure("a last line in the log, which ended the process"),
        "Crash": Failure("a signal, which ended the process", not_written("Caffe2 has none either")),
    }
)
def failures(type: str, row: Failure) -> OpSchema:
    """An operator that raises a `RaisedError`."""
    made = schema(
        type,
        f"""Raises an error, and nothing else.

        In Caffe2 it was {row.there}.""",
        effects=Effects.STATE,
        no_gradient=row.no_gradient,
        source="Caffe2",
    )

    @host_kernel(made)
    def fail(op: OpView) -> None:
        raise op.error(row.error, "it failed, as it is there to do")

    return made

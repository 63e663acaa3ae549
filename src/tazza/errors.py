"""All errors that tazza raises on purpose: one family, rooted in a `RuntimeError`.

Old Caffe2 scripts catch `RuntimeError`; where a builtin type is what people catch for such a mistake (`KeyError`,
`ValueError`, `TypeError`, `OSError`), the class inherits that as well. The first line of a message names the operator
or the blob and the relation that failed with both values; `hint` says how to fix it.
"""

from __future__ import annotations


class TazzaError(RuntimeError):
    r"""Root of the family.

    >>> str(TazzaError("blob 'x' has no value", hint="feed it first"))
    "blob 'x' has no value\n  hint: feed it first"

    `key` is what a table of calls knew the failing one by, where one failed.
    """

    key: object = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where: list[str] = []

    def add_context(self, line: str) -> None:
        """Append a line that tells where the error happened (operator, net, user's code); innermost first."""
        self.where.append(line)

    def __str__(self) -> str:
        lines = [self.message, *(f"  {line}" for line in self.where)]
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


# -- what a net, an operator or its arguments may get wrong ------------------------------------------------------------


class SchemaError(TazzaError, ValueError):
    """An OperatorDef breaks its schema: wrong number of inputs or outputs, a forbidden or missing in-place pair."""


class ArgumentError(TazzaError, ValueError):
    """An argument is missing, unknown, of the wrong type or out of its range."""


class ShapeError(TazzaError, ValueError):
    """Shapes that do not fit each other or the operator."""


class BoundsError(TazzaError, IndexError):
    """An index or a new axis outside of a tensor's extents, or more indices than axes."""


class DTypeError(TazzaError, TypeError):
    """An element type that the operator, the place or the format does not take."""


class BlobTypeError(TazzaError, TypeError):
    """A blob holds another kind of value than the one asked for (a tensor, a string, a DB reader ...)."""


class PlaceError(TazzaError, ValueError):
    """A blob lies on another device than the one that is to read it."""


class UnknownOperatorError(TazzaError, KeyError):
    """No schema, or no kernel on the wanted device, of this operator type."""


class UnsupportedError(TazzaError):
    """No engine takes this operator with these inputs; the message lists every engine's reason."""


class GradientError(TazzaError, ValueError):
    """The backward pass cannot be built: no gradient, an overwritten blob, dense and sparse mixed."""


class NetError(TazzaError, ValueError):
    """A net that is not well formed: duplicate name, missing producer, cycle, unknown type."""


class TransformError(TazzaError):
    """A transform that is declared wrongly, or whose rules fail: a mistake of its code, not of the net."""


class RunCancelledError(TazzaError):
    """A run of a net was cancelled; blobs are valid, parameters may be partly updated."""


class DeadlineError(TazzaError, TimeoutError):
    """A run of a net did not end in the time that it was given; it was stopped, as if cancelled."""


class ClosedError(TazzaError):
    """A queue, or a world of ranks, that was closed: nothing more goes in or comes out."""


class KernelError(TazzaError):
    """A kernel failed in a way that it should not: its cause is chained."""


class NumericError(TazzaError, ArithmeticError):
    """A number that ends the work, such as a loss that is NaN."""


class RaisedError(TazzaError):
    """An operator that is there to fail has failed: Fail, ThrowException and their like."""


class RunFailedError(RaisedError):
    """An operator has said that its run failed, and no more: Fail. Who allows that a run fails is told so."""


class CheckError(TazzaError, AssertionError):
    """An operator, or an engine, does not do what a case of it says: see `tazza.testing`."""


# -- what is not there -------------------------------------------------------------------------------------------------


class NotFoundError(TazzaError, KeyError):
    """A name that is not registered or not in the workspace: blob, net, flag, workspace, registry key."""


class DuplicateError(TazzaError, ValueError):
    """A name that is taken already."""


class ExchangeError(TazzaError, BufferError, ValueError):
    """Memory that cannot go to or come from another library as asked: not without a copy, or not at all."""


class UnavailableError(TazzaError):
    """An optional part (engine, library, device) is not usable here; the message says why and what would help."""


# -- memory and files --------------------------------------------------------------------------------------------------


class OutOfMemoryError(TazzaError, MemoryError):
    """An allocator's limit, or the machine's memory, is reached."""


class FormatError(TazzaError, ValueError):
    """Bytes that are not what they should be: a broken protobuf, a truncated record, an inconsistent tensor."""


class TrustError(TazzaError, PermissionError):
    """A net from a file would do more than its caller trusts it to; nothing of it has run."""


class DBError(TazzaError, OSError):
    """A database is missing, corrupt, locked or not writable."""


class FileError(TazzaError, OSError):
    """A file or folder cannot be read or written."""


class InitError(TazzaError):
    """`global_init`, a flag or a module cannot be loaded as asked."""

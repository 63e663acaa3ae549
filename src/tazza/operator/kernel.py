"""The contract between operators and the code that computes them.

    prepare(op, context, inputs, outputs) -> Launch     once per signature: specs only
    launch.bind(operands)                 -> Call       when an address changed
    call()                                              every run

What `prepare` cannot compute it refuses by `Unsupported` and the reason: raised where that is found out, or returned.

A `Launch` knows nothing of tensors, nor of a context's handles: it holds descriptors and sizes, and can be shared and
evicted. A `Call` is bound to addresses: a Python callable, or a `NativeCall`, which is a C function and its argument
block.

There are three decorators, all public:

- `@kernel(SCHEMA)`: a plain function on arrays is the whole kernel; it writes its outputs, and returns nothing. Its
  parameters are found by name: the schema's letters (arrays; None where an optional blob is absent; tuples where it is
  variadic; `DynamicOutput` where the size depends on data; the `Blob` where it holds no tensor), `op`, and `random`.
- `@launcher(SCHEMA, engine=...)`: a `prepare` function, for libraries with descriptors. It may answer with layouts for
  outputs and inputs (`LaidOut`), and says which layouts it can be shown by `accepts`. The layout of an output's spec is
  a wish: ROW_MAJOR is none, that of an output which overwrites an input is a must. The spec of an output whose size
  depends on data has unknown extents; a `SizedLaunch`, or the launch itself, allocates it in each call.
- `@host_kernel(SCHEMA)`: a function, or a class with `run` and `close`, that works on blobs and the workspace.
  Parameters by name too: letters (as `Blob`), `op`, `operator`, `workspace`, `random`. State that outlives a run
  lives in the class; it is made with the operator and closed with it. It is for any device (`ANY`), unless it says
  otherwise: what it reads on a device comes to the host by `plain()`, what it makes goes there by `assign()`.

Devices. A bind is given operands that lie where the schema says (`OpSchema.infer_places`), or is not reached: see
`placement.py`. Where `operands.context` has a stream, a call may *queue* its work there and return:

- What it queues keeps the spans that it was bound to alive until it has run, scratch memory included. Work that is
  queued later on the same stream comes after it, so that it may be given the same scratch memory.
- Operands on the host (`host=True`, inputs of copies) are read while the call is made: who made the call may write them
  when it returns. What it writes on the host is there on return, or after what the stream is asked to `record`.
- Nobody waits in a call. Whoever reads a value waits: `plain()`, and the copies behind it, for the stream; nets
  between operators of different devices, by events, and at the end of a run (`simple`, `plan`: behind each stretch of
  operators on a device). Until then `wrote()` counts as written what is on its way.
- What fails behind the call is raised where its work is waited for.
"""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.device import Context, Generator
from tazza.errors import KernelError, OutOfMemoryError, SchemaError, TazzaError
from tazza.operator.declaring import declaring
from tazza.operator.index import ANY, load_kernel
from tazza.operator.mistake import check_dimensions, parameter_names, strange_letters
from tazza.operator.schema import OpSchema, Spec, gather_all
from tazza.operator.view import OpView
from tazza.registry import Registry
from tazza.runtime.blas import set_blas_threads
from tazza.runtime.fork import PROCESS
from tazza.runtime.native import call_native
from tazza.runtime.threads import thread_count
from tazza.tensor import ROW_MAJOR, Allocation, DataType, Layout, Opaque, Tensor, TensorSpec
from tazza.tensor.offer import Offer, Unsupported
from tazza.tensor.place import CPU_KIND, PLACE_KINDS, Place

if TYPE_CHECKING:
    from tazza.operator.operator import Operator
    from tazza.operator.owned import OwnedNets

Array: TypeAlias = NDArray[Any]
Call: TypeAlias = Callable[[], Any]
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A C function `int64_t f(int64_t a, int64_t b, int64_t c, int64_t d)`; the low 32 bits it returns are a status.

    `arguments` are a, b, c, d (addresses and numbers); what they point to is kept alive by `owner`. `threads` is the
    number of OpenMP threads that the call was made for, 0 when it does not care. `describe(status)` puts a status
    other than 0 into words. `forks` tells the process that made it from those that it was forked from.
    """

    address: int
    arguments: tuple[int, int, int, int]
    owner: Any
    threads: int = 0
    describe: Callable[[int], str] | None = None
    forks: int = field(default_factory=lambda: PROCESS.forks, repr=False, compare=False)

    def __call__(self) -> None:
        """Call it without the GIL, under the present number of threads; executors run calls by `native_calls` instead.

        Raises:
            KernelError: the function returned something else than 0.
        """
        status = call_native(self.address, *self.arguments, threads=self._known_threads()) & 0xFFFFFFFF
        if status != 0:
            raise self.error(status)

    def _known_threads(self) -> int | None:
        """Return how many threads it uses; None where only its maker knows."""
        if self.threads:
            return self.threads
        return 1 if PROCESS.lost and self.forks == PROCESS.forks else None  # nobody had more to give when it was made

    def error(self, status: int) -> KernelError:
        """Return the error for a status other than 0."""
        words = f"status {status}" if self.describe is None else self.describe(status)
        return KernelError(f"native kernel at {self.address:#x} failed: {words}")


def kernel_failure(error: Exception) -> TazzaError:
    """Return the typed error for what a kernel raised: memory that is not there, or else a failure of the kernel.

    >>> type(kernel_failure(OSError(errno.ENOMEM, "a module"))).__name__
    'OutOfMemoryError'
    >>> type(kernel_failure(MemoryError("1 GiB"))).__name__, str(kernel_failure(KeyError("x")))
    ('OutOfMemoryError', "KeyError: 'x'")
    """
    scant = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    kind = OutOfMemoryError if scant else KernelError
    return kind(f"{type(error).__name__}: {error}")


@runtime_checkable
class Movable(Protocol):
    """An `owner` of the arguments of a native call that can let the call read operands from elsewhere."""

    def move(self, start: int, end: int, shift: int, /) -> int:
        """Let all operands that were bound to addresses in [start, end) lie `shift` bytes behind them; 0 undoes it.

        Returns how many operands these are.
        """
        ...


@dataclass(frozen=True, slots=True)
class CallChain:
    """Several calls as one, made in turn; executors look inside, so that native ones in a row become a segment."""

    calls: tuple[Call, ...]

    def __call__(self) -> None:
        """Make all calls."""
        for call in self.calls:
            call()


@dataclass(slots=True)
class Operands:
    """What a `Launch` is bound to: tensors by letter, scratch memory, and what belongs to the operator."""

    tensors: Mapping[str, Any]
    scratch: Allocation | None
    random: Callable[[], Generator]
    context: Context
    state: Any = None

    def __getitem__(self, letter: str) -> Tensor:
        """Return the tensor of a letter."""
        return cast("Tensor", self.tensors[letter])

    def get(self, letter: str) -> Tensor | None:
        """Return the tensor of an optional letter, or None."""
        return cast("Tensor | None", self.tensors.get(letter))

    def sized_by_kernel(self, letter: str, dtype: DataType) -> DynamicOutput:
        """Return the output of a letter whose size depends on data: each call allocates it before it writes."""
        return DynamicOutput(self[letter], dtype, self.context.place)

    def arrays(self, letter: str) -> Any:
        """Return what an array kernel gets for a letter: an array, None, a Blob without tensor, or a tuple of these."""
        value = self.tensors[letter]
        if isinstance(value, tuple):
            return tuple(_array(one) for one in cast("tuple[Any, ...]", value))
        return _array(value)


def _array(value: Any) -> Any:
    return value.array if isinstance(value, Tensor) else value


class Launch(Protocol):
    """What `prepare` returns: everything about a call but its addresses.

    A launch may say more of itself: `implementation`, what it is called.
    """

    @property
    def scratch_bytes(self) -> int:
        """How much scratch memory a call needs."""
        ...

    @property
    def capturable(self) -> bool:
        """Whether a device may record what a call queues, and queue it again by itself, as often as it is called.

        Each call queues the same work on the same addresses, and does nothing else that shows, but for what is the
        host's part of a `SplitCall`.
        """
        ...

    def bind(self, operands: Operands) -> Call:
        """Return the call on these operands."""
        ...


@dataclass(frozen=True, slots=True)
class LaunchChain:
    """Launches one after the other, which share scratch memory."""

    launches: tuple[Launch, ...]

    @property
    def scratch_bytes(self) -> int:
        """That of the greediest; of no launches there is none."""
        return max((launch.scratch_bytes for launch in self.launches), default=0)

    @property
    def implementation(self) -> str:
        """What those of them that have a name are called."""
        names = [str(getattr(launch, "implementation", "")) for launch in self.launches]
        return " + ".join(name for name in names if name)

    @property
    def capturable(self) -> bool:
        """Whether all of them are."""
        return all(launch.capturable for launch in self.launches)

    def bind(self, operands: Operands) -> Call:
        """Return all calls as one."""
        return CallChain(tuple(launch.bind(operands) for launch in self.launches))


Sizes: TypeAlias = "Mapping[str, tuple[int, ...]]"
"""Extents of outputs, by letter."""


@dataclass(frozen=True, slots=True)
class SizedLaunch:
    """A launch with outputs whose sizes depend on data, but are found before anything is written.

    `sizes(operands)` gives at each call the extents of those outputs, whose types are `dtypes`, and `launch(sizes)`
    what computes them; it is made and bound anew only where sizes or memory changed. Where sizes come out while a
    kernel computes, its own launch asks `operands.sized_by_kernel` for each such output and allocates it when it knows.
    """

    sizes: Callable[[Operands], Sizes]
    launch: Callable[[Sizes], Launch]
    dtypes: Mapping[str, DataType]
    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Return a call that finds the sizes, allocates, and makes the call for those."""
        outputs = {letter: operands.sized_by_kernel(letter, dtype) for letter, dtype in self.dtypes.items()}
        bound: list[tuple[Sizes, list[int], Call]] = []

        def call() -> None:
            sizes = self.sizes(operands)
            for letter, output in outputs.items():
                output.resize(sizes[letter])
            addresses = [output.tensor.address for output in outputs.values()]
            if not bound or bound[0][:2] != (sizes, addresses):
                bound[:] = [(sizes, addresses, self.launch(sizes).bind(operands))]
            bound[0][2]()

        return call


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A launch with layouts of its own, by letter: those it writes outputs in, and those it reads inputs in.

    An input that lies otherwise is reordered before the launch sees it. Outputs that are not named are row-major,
    inputs as they were shown; a variadic letter has one layout for all its blobs.
    """

    launch: Launch
    layouts: Mapping[str, Layout]


def accepts_strided(letter: str, spec: Spec) -> bool:
    """Take every layout that NumPy can look at: the default of `accepts`."""
    del letter
    return not isinstance(spec, TensorSpec) or not isinstance(spec.layout, Opaque)


Answer: TypeAlias = "Launch | LaidOut | Unsupported"
"""What an offer turns out to be when it is taken."""
Offered: TypeAlias = "Launch | LaidOut | Offer[Callable[[], Answer]] | Unsupported"
"""What a kernel answers: an offer whose `run` makes the launch, or at once a launch that no other is compared with."""
Prepare: TypeAlias = "Callable[[OpView, Context, Sequence[Spec], Sequence[Spec]], Offered]"


def taken(answer: Offered) -> Answer:
    """Return what an offer turns out to be, where nobody else is asked."""
    return answer.run() if isinstance(answer, Offer) else answer


HostFactory: TypeAlias = "Callable[[Operator], HostCall]"


@dataclass(frozen=True, slots=True)
class HostCall:
    """A host kernel made for one operator; `cancel` makes a call that waits give up, from another thread.

    `cancel` may come just before the call that it is meant for: a kernel remembers it until that call has ended.
    `nets` are those that the kernel runs. What others raise, whom it calls, keeps its type.
    """

    call: Call
    close: Callable[[], None] | None = None
    cancel: Callable[[], None] | None = None
    nets: OwnedNets | None = None
    calls_others: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """One way to compute an operator type: by `prepare`, or, when it needs blobs and the workspace, by `host`.

    Exactly one of the two is there, and an operator type has either only host kernels or none.
    `open(operator)` makes state in the workspace when the operator is made, and gives it to the launch as
    `operands.state`. `accepts(letter, spec)` says of each input whether its layout can be taken as it is.
    `parameters` are what a kernel on arrays, `function`, takes.
    `batch_invariant` declares that what it answers to an operator that wants it (`op.batch_invariant`) gives each image
    the bits that the image gets alone, in whatever batch; others run image by image then.
    """

    type: str
    device: str
    engine: str
    prepare: Prepare | None = None
    host: HostFactory | None = None
    open: Callable[[Operator], Any] | None = None
    accepts: Callable[[str, Spec], bool] = accepts_strided
    function: Callable[..., Any] | None = None
    parameters: tuple[str, ...] = ()
    module: str = ""
    batch_invariant: bool = False

    def __post_init__(self) -> None:
        """Check the rule that code which takes a kernel relies on."""
        if (self.prepare is None) == (self.host is None):
            raise SchemaError(f"kernel of {self.type} for {self.engine}: give prepare or host, and one of them only")


KernelKey: TypeAlias = tuple[str, str, str]
"""Operator type, kind of device, engine."""

KERNELS: Registry[KernelKey, Kernel] = Registry("kernel (operator, device, engine)", loader=load_kernel)


def kernel_key(type: str, engine: str, device: str = CPU_KIND) -> KernelKey:
    """Return the key of a kernel in `KERNELS`, and of what engines say of it in other registries.

    >>> kernel_key("Relu", "onednn")
    ('Relu', 'cpu', 'onednn')
    """
    return type, device, engine


def kernel_for(type: str, device: str, engine: str) -> Kernel | None:
    """Return the kernel of an engine for a kind of device, one that it has for any device included; None without."""
    found = KERNELS.get((type, device, engine))
    return KERNELS.get((type, ANY, engine)) if found is None else found


class DynamicOutput:
    """An output whose size depends on data: the kernel calls `allocate` before it writes."""

    def __init__(self, tensor: Tensor, dtype: DataType, place: Place | None = None) -> None:
        """Wrap the output tensor; `dtype` is what inference says, `place` where it will lie, else where it is."""
        self.tensor = tensor
        self.dtype = dtype
        self.place = tensor.place if place is None else place

    def allocate(self, dims: Sequence[int], dtype: DataType | None = None) -> Array:
        """Give the output its size, and return the array to write."""
        self.resize(dims, dtype)
        return self.tensor.array

    def resize(self, dims: Sequence[int], dtype: DataType | None = None) -> None:
        """Give the output its size, wherever it lies."""
        self.tensor.resize_to(TensorSpec(tuple(dims), self.dtype if dtype is None else dtype, self.place))


@dataclass(frozen=True, slots=True)
class ArrayLaunch:
    """The launch of a plain function on arrays; `dynamic` are the dtypes of outputs whose size depends on data.

    `quantization` says by letter what the integers of inputs and outputs stand for.
    """

    function: Callable[..., None]
    parameters: tuple[str, ...]
    op: OpView
    dynamic: Mapping[str, tuple[DataType, ...]]
    scratch_bytes: int = 0
    quantization: Mapping[str, Any] = field(default_factory=dict[str, Any])
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Find the function's arguments by name."""
        values: list[Any] = []
        for name in self.parameters:
            if name == "op":
                values.append(self.op)
            elif name == "random":
                values.append(operands.random())
            elif name == "quantization":
                values.append(self.quantization)
            elif name in self.dynamic:
                values.append(_dynamic(operands.tensors[name], self.dynamic[name]))
            else:
                values.append(operands.arrays(name))
        return _python_call(self.op.schema, partial(self.function, *values))


def _python_call(schema: OpSchema, function: Callable[[], Any]) -> Call:
    """Return the call of a kernel in Python, whose result, which nobody would look at, is refused.

    NumPy's BLAS, which it may call, is told how many threads there are; nets without such kernels never ask for it.
    """
    set_blas_threads(thread_count())

    def call() -> None:
        result = function()
        if result is not None:
            letters = ", ".join(schema.outputs_by_letter)
            raise KernelError(
                f"the kernel of {schema.type} returned a value of type {type(result).__name__}, a kernel returns None",
                hint=f"write into {letters if letters else 'nothing: it has no outputs'} (`Y[...] = result`); "
                "a function that returns its results is registered by register_function",
            )

    return call


def _dynamic(tensors: Any, dtypes: tuple[DataType, ...]) -> Any:
    if isinstance(tensors, tuple):
        pairs = zip(cast("tuple[Tensor, ...]", tensors), dtypes, strict=True)
        return tuple(DynamicOutput(tensor, dtype) for tensor, dtype in pairs)
    return None if tensors is None else DynamicOutput(tensors, dtypes[0])


def _letters(schema: OpSchema) -> set[str]:
    names = [spec.name for spec in (*schema.inputs, *schema.outputs)]
    if len(set(names)) != len(names):
        raise SchemaError(f"{schema.type}: an input and an output share a letter: {', '.join(names)}")
    return set(names)


def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of what a kernel asks for."""
    return tuple(name for name in parameter_names(function) if name != "self")


def _parameters(schema: OpSchema, function: Callable[..., Any], also: tuple[str, ...]) -> tuple[str, ...]:
    names = parameters_of(function)
    known = _letters(schema) | set(also)
    strange = [name for name in names if name not in known]
    if strange:
        raise strange_letters(
            f"kernel of {schema.type} has parameters that the schema does not know", sorted(strange), known
        )
    return names


def _check_outputs(schema: OpSchema, parameters: Collection[str]) -> None:
    """Check that a function on arrays, which returns nothing, is given an output that it can write.

    Raises:
        SchemaError: it is given none.
    """
    letters = list(schema.outputs_by_letter)
    if letters and not any(letter in parameters for letter in letters):
        raise SchemaError(
            f"kernel of {schema.type} takes none of its outputs, {', '.join(letters)}: it can write nothing",
            hint=f"name {letters[0]!r} among its parameters and write into it, as in {letters[0]}[...] = ",
        )


def _register(made: Kernel, schema: OpSchema, function: Any, priority: int) -> None:
    """Register a kernel of an engine that is there, for a kind of device that it serves.

    Raises:
        SchemaError: nobody declares the engine, it is for other devices, or shapes of outputs follow from nothing.
        DuplicateError: it has such a kernel.
    """
    from tazza.operator.engine import ENGINES  # which asks what kernels there are

    check_dimensions(schema)
    engine = ENGINES.get(made.engine)
    if engine is None:
        raise SchemaError(
            f"kernel of {made.type}: there is no engine {made.engine!r}",
            hint=f"{ENGINES.near(made.engine)} A new one is declared by engine({made.engine!r}, ...) first",
        )
    if not engine.serves(made.device) or made.device not in engine.devices | PLACE_KINDS:
        kinds = ", ".join(sorted(engine.devices))
        raise SchemaError(
            f"kernel of {made.type}: engine {made.engine!r} is for {kinds}, not for {made.device!r}",
            hint="engine(..., device=...) says which kinds of devices it serves",
        )
    key = (made.type, made.device, made.engine)
    KERNELS.register(key, made, help=f"{function.__module__}.{function.__qualname__}", priority=priority)


def kernel(
    schema: OpSchema,
    *,
    engine: str = "reference",
    device: str = CPU_KIND,
    priority: int = 0,
    batch_invariant: bool = False,
) -> Callable[[F], F]:
    """Register a plain function on arrays as the kernel of `schema` for an engine and a kind of device.

    Beside letters it may ask for `op`, `random` (the operator's generator) and `quantization` (by letter).
    """

    def decorate(function: F) -> F:
        with declaring():
            parameters = _parameters(schema, function, ("op", "random", "quantization"))
            _check_outputs(schema, parameters)
        dynamic = frozenset(spec.name for spec in schema.outputs if spec.dynamic)

        def prepare(
            op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
        ) -> Launch | Unsupported:
            del context  # NumPy takes every shape, dtype and stride
            shapes = op.schema.reshaped(op, inputs)
            written = list(zip(op.output_letters, outputs, strict=True))
            dtypes = {
                name: tuple(s.dtype for letter, s in written if letter == name and isinstance(s, TensorSpec))
                for name in dynamic
            }
            computing = _reshaping(function, parameters, shapes) if shapes else function
            meaning = _quantizations(op, inputs, outputs) if "quantization" in parameters else {}
            return ArrayLaunch(computing, parameters, op, dtypes, quantization=meaning)

        found = Kernel(
            schema.type,
            device,
            engine,
            prepare=prepare,
            function=function,
            parameters=parameters,
            module=function.__module__,
            batch_invariant=batch_invariant,
        )
        with declaring():
            _register(found, schema, function, priority)
        return function

    return decorate


def _quantizations(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> dict[str, Any]:
    """Return what the integers of each letter stand for, a tuple where it is variadic."""
    found = [spec.quantization if isinstance(spec, TensorSpec) else None for spec in (*inputs, *outputs)]
    return gather_all(op, found)


def _reshaping(
    function: Callable[..., None], parameters: tuple[str, ...], shapes: Mapping[str, Sequence[int | None]]
) -> Callable[..., None]:
    """Return the function with some of its arrays in another shape; each call looks at them anew."""
    places = [(place, shapes[name]) for place, name in enumerate(parameters) if name in shapes]

    def call(*values: Any) -> None:
        seen = list(values)
        for place, shape in places:
            value = values[place]
            many = isinstance(value, tuple)
            arrays = [x.reshape(shape) for x in cast("tuple[Any, ...]", value if many else (value,))]
            seen[place] = tuple(arrays) if many else arrays[0]
        function(*seen)

    return call


def launcher(
    schema: OpSchema,
    *,
    engine: str,
    device: str = CPU_KIND,
    open: Callable[[Operator], Any] | None = None,
    accepts: Callable[[str, Spec], bool] = accepts_strided,
    priority: int = 0,
    batch_invariant: bool = False,
) -> Callable[[F], F]:
    """Register a `prepare` function as the kernel of `schema` for an engine and a kind of device."""

    def decorate(prepare: F) -> F:
        found = Kernel(
            schema.type,
            device,
            engine,
            prepare=cast("Prepare", prepare),
            open=open,
            accepts=accepts,
            module=prepare.__module__,
            batch_invariant=batch_invariant,
        )
        with declaring():
            _register(found, schema, prepare, priority)
        return prepare

    return decorate


def host_kernel(
    schema: OpSchema, *, engine: str = "reference", device: str = ANY, priority: int = 0, calls_others: bool = False
) -> Callable[[F], F]:
    """Register a function, or a class made with the operator, on blobs; for any device unless `device` names a kind.

    It runs on the host, wherever its operator stands: tensors on a device are read by their `plain()`, which copies.
    A class has `run(...)`; `close()` where it holds something, and `cancel()` where its `run` may wait: another thread
    calls that when the net is to end. One that runs nets has them in `nets`, an `OwnedNets`, which is closed and
    cancelled for it. `calls_others` declares that it calls functions of the user, whose exceptions keep their type;
    whatever else escapes from a kernel is a `KernelError`.
    """

    def decorate(target: F) -> F:
        runner = cast("Callable[..., Any]", getattr(target, "run", target))
        with declaring():
            parameters = _parameters(schema, runner, ("op", "operator", "workspace", "random"))

        def make(operator: Operator) -> HostCall:
            values = {"op": operator.op, "operator": operator, "workspace": operator.workspace, **operator.blobs}
            if "random" in parameters:
                values["random"] = operator.generator()
            arguments = [values[name] for name in parameters]
            if not inspect.isclass(target):
                call = _python_call(schema, partial(target, *arguments))
                return HostCall(call, calls_others=calls_others)
            try:
                state = cast("Callable[[Operator], Any]", target)(operator)
            except Exception as error:
                if calls_others or isinstance(error, TazzaError):
                    raise
                raise kernel_failure(error) from error
            call = _python_call(schema, partial(state.run, *arguments))
            nets = cast("OwnedNets | None", getattr(state, "nets", None))
            close = getattr(state, "close", None if nets is None else nets.close)
            cancel = getattr(state, "cancel", None if nets is None else nets.cancel)
            return HostCall(call, close, cancel, nets, calls_others or nets is not None)

        found = Kernel(schema.type, device, engine, host=make, function=runner, module=target.__module__)
        with declaring():
            _register(found, schema, target, priority)
        return target

    return decorate


def contiguous(spec: Spec) -> bool:
    """Whether a spec is a tensor of row-major layout, which is all that BLAS-like kernels take."""
    return isinstance(spec, TensorSpec) and spec.layout == ROW_MAJOR


def value_key(array: Array) -> bytes:
    """Return bytes that tell values apart."""
    return repr(array.tolist()).encode() if array.dtype == np.object_ else array.tobytes()

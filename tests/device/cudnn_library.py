"""A cuDNN that answers as its documentation says, over the fake driver: convolutions of NumPy, on its streams.

Descriptors of graphs are kept as what was set in them. It is strict: an attribute of another kind of descriptor or of
another type, one that is missing when a descriptor is closed, a change of a closed one, a look into an open one,
extents that do not fit together, an address that is not the device's or less aligned than was said, and a workspace
that is too small are all refused.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tazza.device.cuda.vendor import TYPES
from tazza.engines.cudnn._declarations import FUNCTIONS, NUMBERS
from tazza.engines.cudnn.descriptor import C_TYPES
from tazza.engines.cudnn.library import CUDNN
from tests.device.cuda_driver import FakeCUDA

INVALID = 2000
SHAPE, NOT_FINAL, TYPE, SMALL, MISALIGNED = 2008, 2004, 2010, 2006, 2003
UNSUPPORTED = 3000
KINDS: dict[int, Any] = {0: np.float32, 2: np.float16, 9: ml_dtypes.bfloat16}
WORKSPACE = 256

NAMES = {number: name.removeprefix("CUDNN_ATTR_") for name, number in NUMBERS.items() if name.startswith("CUDNN_ATTR_")}
TYPE_NAMES = {
    number: name.removeprefix("CUDNN_TYPE_") for name, number in NUMBERS.items() if name.startswith("CUDNN_TYPE_")
}
KIND_NAMES = {
    number: name.removeprefix("CUDNN_BACKEND_").removesuffix("_DESCRIPTOR")
    for name, number in NUMBERS.items()
    if name.startswith("CUDNN_BACKEND_") and name.endswith("_DESCRIPTOR")
}
CONVOLUTIONS = {
    "OPERATION_CONVOLUTION_FORWARD": ("OPERATION_CONVOLUTION_FORWARD", ("X", "W", "Y")),
    "OPERATION_CONVOLUTION_BACKWARD_DATA": ("OPERATION_CONVOLUTION_BWD_DATA", ("DX", "W", "DY")),
    "OPERATION_CONVOLUTION_BACKWARD_FILTER": ("OPERATION_CONVOLUTION_BWD_FILTER", ("X", "DW", "DY")),
}
NEEDED = {
    "TENSOR": "UNIQUE_ID DATA_TYPE BYTE_ALIGNMENT DIMENSIONS STRIDES",
    "CONVOLUTION": "SPATIAL_DIMS COMP_TYPE CONV_MODE PRE_PADDINGS POST_PADDINGS DILATIONS FILTER_STRIDES",
    "POINTWISE": "MODE MATH_PREC",
    "OPERATION_POINTWISE": "PW_DESCRIPTOR XDESC YDESC",
    "OPERATIONGRAPH": "HANDLE OPS",
    "ENGINEHEUR": "OPERATION_GRAPH MODE",
    "ENGINE": "OPERATION_GRAPH GLOBAL_INDEX",
    "ENGINECFG": "ENGINE",
    "EXECUTION_PLAN": "HANDLE ENGINE_CONFIG",
    "VARIANT_PACK": "UNIQUE_IDS DATA_POINTERS WORKSPACE",
} | {kind: f"CONV_DESC ALPHA BETA {' '.join(names)}" for kind, (_, names) in CONVOLUTIONS.items()}
"""What must be set before a descriptor of a kind is closed; the names begin with that of the kind."""


@dataclass(frozen=True)
class FakeEngine:
    """An engine: its number, its notes, the bytes of its workspace, and in how many pieces of work it does it."""

    number: int
    notes: tuple[str, ...] = ()
    workspace: int = WORKSPACE
    pieces: int = 1
    alignment: int = 1


ENGINES = (
    FakeEngine(67, ("TENSOR_CORE",)),
    FakeEngine(25, ("NONDETERMINISTIC",)),
    FakeEngine(2, workspace=1 << 40),
    FakeEngine(1, pieces=2, alignment=16),
    FakeEngine(28, workspace=64),
    FakeEngine(0, ("STRICT_NAN_PROP",), 0, 3),
)
"""As the heuristic lists them; the last is what it falls back to."""


@dataclass
class FakeDescriptor:
    """A descriptor of graphs: the name of its kind, and what was set."""

    kind: str
    values: dict[str, Any] = field(default_factory=dict)
    final: bool = False


Array = NDArray[Any]


def _integers(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int * count).from_address(address))


class FakeCudnn:
    """The library; its functions are real C pointers of the declared types."""

    gpu: FakeCUDA

    def __init__(self) -> None:
        """Answer over the driver that `gpu` will be."""
        self.handles: dict[int, int] = {}
        self.tensors: dict[int, dict[str, Any]] = {}
        self.descriptors: dict[int, FakeDescriptor] = {}
        self.ran: list[int] = []
        """The numbers of the engines that ran."""
        self._numbers = itertools.count(7000)
        self.library: Any = SimpleNamespace(fake=self)
        for name, letters in FUNCTIONS.items():
            kind = ctypes.CFUNCTYPE(TYPES[letters[0]], *(TYPES[letter] for letter in letters[1:]))
            setattr(self.library, name, kind(getattr(self, name)))

    def _made(self, address: int) -> int:
        made = next(self._numbers)
        ctypes.c_void_p.from_address(address).value = made
        return made

    def cudnnCreate(self, handle: int) -> int:
        """Make a handle."""
        self.handles[self._made(handle)] = 0
        return 0 if self.gpu.current is not None else INVALID

    def cudnnDestroy(self, handle: int) -> int:
        """End one."""
        return 0 if self.handles.pop(handle, None) is not None else INVALID

    def cudnnGetVersion(self) -> int:
        """Tell a version."""
        return 91000

    def cudnnGetErrorString(self, status: int) -> int | None:
        """Tell nothing."""
        return None

    def cudnnGetLastErrorString(self, text: int, nbytes: int) -> int:
        """Tell nothing."""
        return 0

    def cudnnSetStream(self, handle: int, stream: int) -> int:
        """Queue on a stream from now on."""
        self.handles[handle] = stream
        return 0

    # -- functions that are older than graphs --------------------------------------------------------------------------

    def cudnnCreateTensorDescriptor(self, descriptor: int) -> int:
        """Make one."""
        self.tensors[self._made(descriptor)] = {}
        return 0

    def cudnnDestroyTensorDescriptor(self, descriptor: int) -> int:
        """End one."""
        return 0 if self.tensors.pop(descriptor, None) is not None else INVALID

    def cudnnSetTensorNdDescriptor(self, descriptor: int, kind: int, count: int, dims: int, steps: int) -> int:
        """Describe a tensor."""
        extents = _integers(dims, count)
        self.tensors[descriptor] = {"kind": kind, "dims": extents, "steps": _integers(steps, count)}
        return 0 if count in (4, 5) and min(extents) > 0 else INVALID

    def _array(self, descriptor: int, address: int) -> Array:
        found = self.tensors[descriptor]
        return _laid(address, KINDS[found["kind"]], found["dims"], found["steps"])

    def _run(self, handle: int, scales: tuple[int, int], target: Array, compute: Callable[[], Array]) -> int:
        factors = [ctypes.c_float.from_address(one).value for one in scales]

        def work() -> None:
            value = factors[0] * compute()
            target[...] = (value + factors[1] * target.astype(np.float32) if factors[1] else value).astype(target.dtype)

        self.gpu.launch(self.handles[handle], work)
        return 0

    def cudnnConvolutionBackwardBias(self, handle: int, *given: int) -> int:
        """Return db from dY."""
        alpha, d1, dY, beta, d2, db = given
        slope, target = self._array(d1, dY), self._array(d2, db)
        axes = tuple(axis for axis in range(slope.ndim) if axis != 1)
        return self._run(handle, (alpha, beta), target, lambda: slope.astype(np.float32).sum(axes, keepdims=True))

    def cudnnAddTensor(self, handle: int, *given: int) -> int:
        """Add b to Y."""
        alpha, d1, b, beta, d2, Y = given
        bias, target = self._array(d1, b), self._array(d2, Y)
        return self._run(handle, (alpha, beta), target, lambda: bias.astype(np.float32) + np.zeros(target.shape, "f"))

    def cudnnSetTensor(self, handle: int, *given: int) -> int:
        """Fill with a number."""
        descriptor, Y, value = given
        target, number = self._array(descriptor, Y), ctypes.c_float.from_address(value).value

        def work() -> None:
            target[...] = number

        self.gpu.launch(self.handles[handle], work)
        return 0

    # -- descriptors of graphs -----------------------------------------------------------------------------------------

    def cudnnBackendCreateDescriptor(self, kind: int, descriptor: int) -> int:
        """Make one."""
        self.descriptors[self._made(descriptor)] = FakeDescriptor(KIND_NAMES[kind])
        return 0

    def cudnnBackendDestroyDescriptor(self, descriptor: int) -> int:
        """End one."""
        return 0 if self.descriptors.pop(descriptor, None) is not None else INVALID

    def cudnnBackendSetAttribute(self, descriptor: int, name: int, kind: int, count: int, elements: int) -> int:
        """Set an attribute of an open one."""
        found, type = self.descriptors[descriptor], TYPE_NAMES[kind]
        if found.final or _own_name(found.kind, NAMES[name]) is None:
            return INVALID
        given = list((C_TYPES.get(type, ctypes.c_int) * count).from_address(elements))
        if type == "BACKEND_DESCRIPTOR":
            if not all(one in self.descriptors and self.descriptors[one].final for one in given):
                return NOT_FINAL
            given = [self.descriptors[one] for one in given]
        wanted = _type_of(NAMES[name])
        if wanted is not None and wanted != type:
            return TYPE
        found.values[_own_name(found.kind, NAMES[name])] = given  # pyright: ignore[reportArgumentType]
        return 0

    def cudnnBackendFinalize(self, descriptor: int) -> int:
        """Close one."""
        found = self.descriptors[descriptor]
        if any(name not in found.values for name in NEEDED[found.kind].split()):
            return INVALID
        status = getattr(self, f"_close_{found.kind.lower()}", _fits)(found)
        found.final = status == 0
        return status

    def _close_engineheur(self, found: FakeDescriptor) -> int:
        graph, mode = found.values["OPERATION_GRAPH"][0], found.values["MODE"][0]
        listed = ENGINES[-1:] if mode == NUMBERS["CUDNN_HEUR_MODE_FALLBACK"] else ENGINES[:-1]
        operations = [one.kind for one in graph.values["OPS"]]
        if operations[0] != "OPERATION_CONVOLUTION_FORWARD" and len(operations) > 1:
            return UNSUPPORTED  # nothing follows a gradient
        found.values["RESULTS"] = [_config(graph, engine) for engine in listed]
        return 0

    def _close_engine(self, found: FakeDescriptor) -> int:
        number = found.values["GLOBAL_INDEX"][0]
        engine = next((one for one in ENGINES if one.number == number), None)
        if engine is None:
            return UNSUPPORTED
        found.values |= _notes(engine)
        return 0

    def _close_execution_plan(self, found: FakeDescriptor) -> int:
        engine = found.values["ENGINE_CONFIG"][0].values["ENGINE"][0]
        used = engine.values["fake"]
        if used.alignment > min(_alignments(engine.values["OPERATION_GRAPH"][0])):
            return UNSUPPORTED
        found.values["WORKSPACE_SIZE"] = [used.workspace]
        return 0

    def cudnnBackendGetAttribute(self, *given: int) -> int:
        """Tell an attribute of a closed one; descriptors are written into those that were given."""
        descriptor, name, kind, most, count, elements = given
        found, type = self.descriptors[descriptor], TYPE_NAMES[kind]
        own = _own_name(found.kind, NAMES[name])
        if not found.final:
            return NOT_FINAL
        values = found.values.get("" if own is None else own)
        if values is None:
            return INVALID
        ctypes.c_int64.from_address(count).value = len(values)
        for place, value in enumerate(values[:most]):
            at = (C_TYPES.get(type, ctypes.c_int) * most).from_address(elements)
            if type == "BACKEND_DESCRIPTOR":
                target = self.descriptors[at[place]]
                if target.kind != value.kind:
                    return INVALID
                target.values, target.final = value.values, True
            else:
                at[place] = value
        return 0

    # -- runs ----------------------------------------------------------------------------------------------------------

    def cudnnBackendExecute(self, handle: int, plan: int, pack: int) -> int:
        """Queue what a plan computes."""
        found, given = self.descriptors[plan], self.descriptors[pack]
        if not (found.final and given.final and found.kind == "EXECUTION_PLAN" and given.kind == "VARIANT_PACK"):
            return INVALID
        engine = found.values["ENGINE_CONFIG"][0].values["ENGINE"][0].values
        graph, used = engine["OPERATION_GRAPH"][0], engine["fake"]
        addresses = dict(zip(given.values["UNIQUE_IDS"], given.values["DATA_POINTERS"], strict=True))
        tensors = {one.values["UNIQUE_ID"][0]: one.values for one in _tensors(graph) if not _virtual(one)}
        if tensors.keys() != addresses.keys():
            return INVALID
        if any(addresses[uid] % one["BYTE_ALIGNMENT"][0] for uid, one in tensors.items()):
            return MISALIGNED
        space = given.values["WORKSPACE"][0]
        own = [] if not used.workspace else [space, 0 if space is None else space + used.workspace - 1]
        places = ["ordinary" if at is None else self.gpu.kind_at(at) for at in (*addresses.values(), *own)]
        if not all(place.startswith("device") for place in places):
            return SMALL
        arrays = {
            uid: _laid(addresses[uid], KINDS[one["DATA_TYPE"][0]], one["DIMENSIONS"], one["STRIDES"])
            for uid, one in tensors.items()
        }
        self.ran.append(used.number)
        for _ in range(used.pieces - 1):
            self.gpu.launch(self.handles[handle], lambda: None)
        self.gpu.launch(self.handles[handle], lambda: _compute(graph, used, dict(arrays)))
        return 0


def _own_name(kind: str, name: str) -> str | None:
    """Return an attribute's name without that of a kind of descriptor; None where it is of another."""
    prefix = CONVOLUTIONS[kind][0] if kind in CONVOLUTIONS else kind
    own = name.removeprefix(f"{prefix}_")
    known = NEEDED[kind].split()
    more = {"TENSOR": ["IS_VIRTUAL"], "POINTWISE": ["NAN_PROPAGATION"], "OPERATION_POINTWISE": ["BDESC"]}
    got = {
        "ENGINEHEUR": ["RESULTS"],
        "ENGINE": ["NUMERICAL_NOTE", "BEHAVIOR_NOTE"],
        "EXECUTION_PLAN": ["WORKSPACE_SIZE"],
    }
    return own if own != name and own in (*known, *more.get(kind, ()), *got.get(kind, ())) else None


def _type_of(name: str) -> str | None:
    """Return the type that an attribute has, as far as its name says it."""
    endings = {
        ("DIMENSIONS", "STRIDES", "DINGS", "DILATIONS", "UNIQUE_ID", "UNIQUE_IDS", "_INDEX", "ALIGNMENT"): "INT64",
        ("_HANDLE",): "HANDLE",
        ("_POINTERS", "_WORKSPACE"): "VOID_PTR",
        ("DATA_TYPE", "COMP_TYPE", "MATH_PREC"): "DATA_TYPE",
        ("_OPS", "DESC", "_DESCRIPTOR", "_GRAPH", "_ENGINE", "_CONFIG", "_X", "_W", "_Y"): "BACKEND_DESCRIPTOR",
        ("_ALPHA", "_BETA"): "FLOAT",
    }
    return next((type for ends, type in endings.items() if name.endswith(ends)), None)


def _fits(found: FakeDescriptor) -> int:
    """Check that the extents of a convolution fit together; nothing of others."""
    values = found.values
    if found.kind == "TENSOR":
        sizes = len(values["DIMENSIONS"]), len(values["STRIDES"])
        return 0 if sizes[0] == sizes[1] and sizes[0] in (4, 5) and min(values["DIMENSIONS"]) > 0 else SHAPE
    if found.kind not in CONVOLUTIONS:
        return 0
    X, W, Y = (values[name][0].values["DIMENSIONS"] for name in CONVOLUTIONS[found.kind][1])
    form = values["CONV_DESC"][0].values
    if min((*form["PRE_PADDINGS"], *form["POST_PADDINGS"])) < 0 or form["SPATIAL_DIMS"] != [len(X) - 2]:
        return INVALID
    names = ("PRE_PADDINGS", "POST_PADDINGS", "DILATIONS", "FILTER_STRIDES")
    sides = zip(X[2:], W[2:], *(form[name] for name in names), strict=True)
    out = [(n + head + tail - d * (k - 1) - 1) // s + 1 for n, k, head, tail, d, s in sides]
    return 0 if [X[0], W[0], *out] == Y and X[1] % W[1] == 0 and W[0] % (X[1] // W[1]) == 0 else SHAPE


def _notes(engine: FakeEngine) -> dict[str, Any]:
    numbers = [NUMBERS[f"CUDNN_NUMERICAL_NOTE_{note}"] for note in engine.notes]
    return {"fake": engine, "GLOBAL_INDEX": [engine.number], "NUMERICAL_NOTE": numbers, "BEHAVIOR_NOTE": []}


def _config(graph: FakeDescriptor, engine: FakeEngine) -> FakeDescriptor:
    made = FakeDescriptor("ENGINE", {"OPERATION_GRAPH": [graph], **_notes(engine)}, final=True)
    return FakeDescriptor("ENGINECFG", {"ENGINE": [made]}, final=True)


def _tensors(graph: FakeDescriptor) -> list[FakeDescriptor]:
    values = [value for one in graph.values["OPS"] for value in one.values.values()]
    found = [one for value in values for one in value if isinstance(one, FakeDescriptor) and one.kind == "TENSOR"]
    return list({id(one.values): one for one in found}.values())


def _virtual(tensor: FakeDescriptor) -> bool:
    return bool(tensor.values.get("IS_VIRTUAL", [False])[0])


def _alignments(graph: FakeDescriptor) -> list[int]:
    return [one.values["BYTE_ALIGNMENT"][0] for one in _tensors(graph)]


def _laid(address: int, kind: Any, dims: Sequence[int], steps: Sequence[int]) -> Array:
    dtype = np.dtype(kind)
    span = sum((n - 1) * step for n, step in zip(dims, steps, strict=True)) + 1
    memory: Any = (ctypes.c_uint8 * (span * dtype.itemsize)).from_address(address)
    return np.ndarray(dims, dtype, memory, 0, [step * dtype.itemsize for step in steps])


def _compute(graph: FakeDescriptor, engine: FakeEngine, arrays: dict[int, Array]) -> None:
    """Compute the operations of a graph in turn; what is virtual is kept in float32."""
    for one in graph.values["OPS"]:
        if one.kind in CONVOLUTIONS:
            uid, value = _convolved(one, engine, arrays)
        else:
            uid, value = _pointwise(one, arrays)
        if uid in arrays and not any(_virtual(t) and t.values["UNIQUE_ID"] == [uid] for t in _tensors(graph)):
            arrays[uid][...] = value.astype(arrays[uid].dtype)
        else:
            arrays[uid] = value


def _uid(operation: FakeDescriptor, name: str) -> int:
    return int(operation.values[name][0].values["UNIQUE_ID"][0])


def _convolved(one: FakeDescriptor, engine: FakeEngine, arrays: dict[int, Array]) -> tuple[int, Array]:
    names = CONVOLUTIONS[one.kind][1]
    form = one.values["CONV_DESC"][0].values
    kinds: dict[str, tuple[Callable[..., Array], int]] = {
        "OPERATION_CONVOLUTION_FORWARD": (_forward, 2),
        "OPERATION_CONVOLUTION_BACKWARD_DATA": (_data, 0),
        "OPERATION_CONVOLUTION_BACKWARD_FILTER": (_filters, 1),
    }
    compute, place = kinds[one.kind]
    read = [_rounded(arrays[_uid(one, name)], engine) for n, name in enumerate(names) if n != place]
    shape = tuple(one.values[names[place]][0].values["DIMENSIONS"])
    return _uid(one, names[place]), compute(form, *read, shape)


def _rounded(value: Array, engine: FakeEngine) -> Array:
    """Return what an engine multiplies: float32 without its last 13 bits, where it is one of TF32."""
    if "TENSOR_CORE" not in engine.notes or value.dtype != np.float32:
        return value
    return (np.ascontiguousarray(value).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _pointwise(one: FakeDescriptor, arrays: dict[int, Array]) -> tuple[int, Array]:
    described = one.values["PW_DESCRIPTOR"][0].values
    X = arrays[_uid(one, "XDESC")].astype(np.float32)
    if described["MODE"] == [NUMBERS["CUDNN_POINTWISE_ADD"]]:
        return _uid(one, "YDESC"), X + arrays[_uid(one, "BDESC")].astype(np.float32)
    strict = described["NAN_PROPAGATION"] == [NUMBERS["CUDNN_PROPAGATE_NAN"]]
    return _uid(one, "YDESC"), (np.maximum if strict else np.fmax)(X, np.float32(0))


def _taps(form: Mapping[str, Any], X: Array, W: Array, out: tuple[int, ...]) -> Iterator[tuple[Any, Any, slice, slice]]:
    """Yield for each place of a filter and each group: the place, what of an image it sees, channels, filters."""
    groups = X.shape[1] // W.shape[1]
    C, M = W.shape[1], W.shape[0] // groups
    for tap in itertools.product(*map(range, W.shape[2:])):
        sides = zip(tap, form["DILATIONS"], form["FILTER_STRIDES"], out, strict=True)
        seen = tuple(slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, s, n in sides)
        for g in range(groups):
            yield tap, seen, slice(g * C, (g + 1) * C), slice(g * M, (g + 1) * M)


def _padded(form: Mapping[str, Any], X: Array) -> Array:
    sides = zip(form["PRE_PADDINGS"], form["POST_PADDINGS"], strict=True)
    return np.pad(X.astype(np.float64), [(0, 0), (0, 0), *sides])


def _forward(form: Mapping[str, Any], X: Array, W: Array, shape: tuple[int, ...]) -> Array:
    padded, Y = _padded(form, X), np.zeros(shape)
    for tap, seen, channels, filters in _taps(form, X, W, shape[2:]):
        w = W[(filters, slice(None), *tap)].astype(np.float64)
        Y[:, filters] += np.einsum("nc...,mc->nm...", padded[(slice(None), channels, *seen)], w)
    return Y.astype(np.float32)


def _filters(form: Mapping[str, Any], X: Array, dY: Array, shape: tuple[int, ...]) -> Array:
    padded, dW, dy = _padded(form, X), np.zeros(shape), dY.astype(np.float64)
    for tap, seen, channels, filters in _taps(form, X, dW, dY.shape[2:]):
        found = padded[(slice(None), channels, *seen)]
        dW[(filters, slice(None), *tap)] = np.einsum(
            "ncp,nmp->mc",
            found.reshape(*found.shape[:2], -1),
            dy[:, filters].reshape(len(dy), -1, int(np.prod(dy.shape[2:]))),
        )
    return dW.astype(np.float32)


def _data(form: Mapping[str, Any], W: Array, dY: Array, shape: tuple[int, ...]) -> Array:
    padded, dy = _padded(form, np.zeros(shape, np.float32)), dY.astype(np.float64)
    for tap, seen, channels, filters in _taps(form, padded, W, dY.shape[2:]):
        w = W[(filters, slice(None), *tap)].astype(np.float64)
        padded[(slice(None), channels, *seen)] += np.einsum("nm...,mc->nc...", dy[:, filters], w)
    inside = tuple(slice(pad, pad + n) for pad, n in zip(form["PRE_PADDINGS"], shape[2:], strict=True))
    return padded[(slice(None), slice(None), *inside)].astype(np.float32)


@contextmanager
def fake_cudnn() -> Generator[FakeCudnn]:
    """Let there be a cuDNN until the block ends, for the fake driver that `gpu` of it is set to."""
    made = FakeCudnn()
    CUDNN.use(made.library)
    try:
        yield made
        assert made.handles == {}, "handles end with their contexts"
    finally:
        CUDNN.use(None)

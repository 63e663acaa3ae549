"""Engines: which are there, and in which order an operator asks them.

An engine is a library; where it has several algorithms for the same, each of these has a name of its own behind a
stroke, such as `native/winograd`, by which it can be asked for. The library's name alone asks for the best of them.

The order: the comma list in `OperatorDef.engine`, then preferences set per operator type, then those set for the
device, then all engines of the device by their priority. `DEFAULT` in a list stands for the device's own order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, SchemaError
from tazza.operator.declaring import declaring
from tazza.operator.index import ANY, index, load_engine
from tazza.operator.kernel import kernel_for
from tazza.registry import Registry, note_change, registry_changes
from tazza.runtime import fp_exceptions
from tazza.runtime.cache import remembered
from tazza.runtime.native import NATIVE_KERNELS
from tazza.runtime.near_names import did_you_mean
from tazza.tensor.place import CPU_KIND, PLACE_KINDS

FORMAT_ENGINES = frozenset(
    """
    ACC16 ACC16_AVX512 BLOCK CHANNELWISE_3D CUDNN DEPTHWISE_3x3 DNNLOWP DNNLOWP_16 DNNLOWP_ACC16 DNNLOWP_ROWWISE
    DNNLOWP_ROWWISE_16 EIGEN FAKE_BFP_14 FAKE_BFP_16 FAKE_BFP_16_ROUND FAKE_BFP_24 FAKE_FP16 FBGEMM GLOO GREEDY IDEEP
    MIOPEN MKL MKLDNN MOBILE MPI NCCL NNPACK OPENGL PACKED QNNPACK SIMD TENSORCORE TENSORRT WINOGRAD
    """.split()
)
"""Engines of Caffe2: saved nets name them on every operator, so that passing one over is no news. `explain` tells."""

KEPT = 4096
"""Answers about engines that are kept: one for each type, device and engine, or list of engines, that was asked for."""


def _always() -> str | None:
    return None


def _no_version() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Engine:
    """Kernels that belong together. Higher `priority` is asked first; `unavailable()` gives a reason, or None.

    `devices` are the kinds that it has kernels for, `ANY` among them where that may be any.
    A `selective` one is made for some shapes of what its operators take, and to refuse the others is no lack of it.
    `version()` is that of the library or the code behind it, as far as it has one: what was measured with one does not
    hold for another. One that `tells` computes with NumPy, which says of arithmetic where it is not defined.
    """

    name: str
    doc: str
    devices: frozenset[str] = frozenset({CPU_KIND})
    priority: int = 0
    unavailable: Callable[[], str | None] = _always
    version: Callable[[], str] = _no_version
    module: str = ""
    selective: bool = False
    tells: bool = False

    def serves(self, device: str) -> bool:
        """Whether it is asked for operators on a kind of device.

        >>> REFERENCE.serves("cuda")  # host work is for any device
        True
        """
        return device in self.devices or ANY in self.devices


ENGINES: Registry[str, Engine] = Registry("engine", loader=load_engine, listed=lambda: frozenset(index()["engines"]))


def engine(
    name: str,
    doc: str,
    *,
    device: str | Collection[str] = CPU_KIND,
    priority: int = 0,
    unavailable: Callable[[], str | None] = _always,
    version: Callable[[], str] = _no_version,
    selective: bool = False,
    tells: bool = False,
) -> Engine:
    """Register an engine for a kind of device, or several kinds.

    Raises:
        SchemaError: its name could not stand in a list of engines, or there is no such kind of device.
        DuplicateError: the name is taken.
    """
    module = sys._getframe(1).f_globals["__name__"]  # pyright: ignore[reportPrivateUsage] -- the index needs it
    devices = frozenset({device} if isinstance(device, str) else device)
    with declaring():
        _check_engine(name, devices)
        made = Engine(name, doc, devices, priority, unavailable, version, module, selective, tells)
        ENGINES.register(name, made, help=doc)
    return made


def asked_engines(wanted: str) -> tuple[str, ...]:
    """Return the engines that an OperatorDef names in its comma list.

    >>> asked_engines("cudnn, gemm,")
    ('cudnn', 'gemm')
    """
    return tuple(name.strip() for name in wanted.split(",") if name.strip())


def _check_engine(name: str, devices: Collection[str]) -> None:
    if asked_engines(name) != (name,) or name == "DEFAULT":
        raise SchemaError(f"{name!r} is no name of an engine", hint="no commas, and not DEFAULT")
    ENGINES.entry(name)  # one of tazza's own is there from now on, and refuses another of its name
    for kind in devices:
        if kind != ANY and kind not in PLACE_KINDS:
            known = [ANY, *sorted(PLACE_KINDS)]
            near = did_you_mean(kind, known)
            raise SchemaError(
                f"engine {name!r} is for devices {kind!r}, of which there are none",
                hint=f"known: {', '.join(known)}" if near is None else near,
            )


REFERENCE = engine(
    "reference",
    "plain NumPy: the definition of every operator, and the judge of all other engines",
    device=(CPU_KIND, ANY),
    tells=True,
)

_by_device: dict[str, tuple[str, ...]] = {}
_by_operator: dict[tuple[str, str], tuple[str, ...]] = {}


def prefer_engines(engines: Sequence[str], *, device: str = CPU_KIND, operator: str | None = None) -> None:
    """Ask `engines` first, for all operators of a kind of device or for one type; an empty list ends the preference.

    Operators that exist already keep their order.

    Raises:
        ArgumentError: an empty name.
    """
    if any(not name for name in engines):
        raise ArgumentError(f"engine names must not be empty: {list(engines)}")
    if operator is None:
        _by_device[device] = tuple(engines)
    else:
        _by_operator[operator, device] = tuple(engines)
    note_change()  # rankings are kept until then


def preferences() -> Hashable:
    """Return all that `prefer_engines` has set, for the key of what was made under it."""
    return tuple(_by_device.items()), tuple(_by_operator.items())


@dataclass(frozen=True, slots=True)
class Candidate:
    """One engine in an operator's ranking: `wanted` when the OperatorDef names it, `preferred` by `prefer_engines`.

    `wish` is the place of the word that asked for it; algorithms that one word asks for together have the same.
    """

    engine: str
    wanted: bool
    preferred: bool = False
    wish: int | None = None


@remembered("engines by priority", entries=64)
def _by_priority(device: str, names: tuple[str, ...], generation: int) -> tuple[str, ...]:
    """Return those of all engines that serve a kind of device, best first; `generation` is that of the registry."""
    del generation
    own = [ENGINES[name] for name in names if ENGINES[name].serves(device)]
    own.sort(key=lambda e: -e.priority)
    return tuple(found.name for found in own)


def rank_engines(type: str, device: str, wanted: str) -> tuple[Candidate, ...]:
    """Return the engines to ask for an operator type, best first; `wanted` is the comma list of its OperatorDef."""
    return _ranked(type, device, wanted, registry_changes())


def telling_engines(ranking: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return those that tell of exceptions of arithmetic, where these are asked for and one does; else all."""
    if not fp_exceptions.asked():
        return ranking
    found = ((one, ENGINES.get(one.engine)) for one in ranking)  # a net may name engines that nobody has
    return [one for one, declared in found if declared is not None and declared.tells] or ranking


@remembered("rankings of engines", entries=KEPT)
def _ranked(type: str, device: str, wanted: str, changes: int) -> tuple[Candidate, ...]:
    del changes  # those of registries and of preferences
    default = _by_priority(device, tuple(ENGINES), ENGINES.generation)
    native = [name for (operator, name) in NATIVE_KERNELS if (operator, device) == (type, CPU_KIND)]
    found: dict[str, Candidate] = {}
    words = asked_engines(wanted)
    preferred = (*_by_operator.get((type, device), ()), *_by_device.get(device, ()))
    for place, word in enumerate((*words, *preferred)):
        if word == "DEFAULT":
            rest = {name: Candidate(name, wanted=False) for name in default if name not in found}
        else:
            asked = place < len(words)
            rest = {name: Candidate(name, asked, not asked, place) for name in algorithms(_own(word, default), default)}
        found.update({name: one for name, one in rest.items() if name not in found})
    for name in (*default, *native):
        found.setdefault(name, Candidate(name, wanted=False))
    return tuple(found.values())


def _own(word: str, names: Collection[str]) -> str:
    """Return what a word of the format is called here, where there is such an engine for the device.

    >>> _own("CUDNN", ["cudnn"]), _own("CUDNN", ["onednn"]), _own("Cudnn", ["cudnn"])
    ('cudnn', 'CUDNN', 'Cudnn')
    """
    return word.lower() if word in FORMAT_ENGINES and word.lower() in names else word


def algorithms(word: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the engines that a word asks for: those of a library, or the one of that name, whether it is there or not.

    >>> algorithms("native", ["native/winograd", "onednn", "native"]), algorithms("nowhere", ["onednn"])
    (('native/winograd', 'native'), ('nowhere',))
    """
    found = tuple(name for name in names if name == word or name.startswith(f"{word}/"))
    return found if found else (word,)


def why_unavailable(type: str, device: str, name: str) -> str | None:
    """Return why an engine has nothing for an operator type, or None when it has a kernel."""
    found = ENGINES.get(name)
    if found is not None and (reason := found.unavailable()) is not None:  # which a fork or a flag may change
        return reason
    return _why_lacking(type, device, name, registry_changes())


@remembered("reasons of engines", entries=KEPT)
def _why_lacking(type: str, device: str, name: str, changes: int) -> str | None:
    """Return why an engine that can be used, if there is one of that name, has nothing for an operator type."""
    del changes
    native = (type, name) in NATIVE_KERNELS
    if name not in ENGINES and not native:
        near = None if name in FORMAT_ENGINES else did_you_mean(name, ENGINES)
        return "no such engine" if near is None else f"no such engine; {near}"
    if kernel_for(type, device, name) is None and not (native and device == CPU_KIND):
        return f"it has no {type} kernel for {device}"
    return None

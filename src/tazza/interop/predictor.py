"""A model that was loaded: named inputs in, named outputs out.

Constant state: the net, its workspace, the names. Any thread may call. Every call takes a *seat*: a net with inputs,
outputs and intermediate memory of its own, over the parameters that all share. Seats are made when they are needed, up
to the flag `predictor_seats`; whoever finds none waits in line (`seats.py`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DBError, DTypeError, FormatError, NetError
from tazza.interop.chosen_inputs import check_inputs, choose_inputs, needed_blobs
from tazza.interop.init_net import run_init_net
from tazza.interop.model_folder import NET_SUFFIXES, find_nets
from tazza.interop.seats import Seats
from tazza.nets import NETS, NetBase, SimpleNet, create_net
from tazza.nets.base import PLAN
from tazza.nets.device import on_cpu
from tazza.nets.plan import PlanNet
from tazza.operator import check_trust, find_argument, find_schema, make_argument, touched_by, touches
from tazza.operator.owner import OwnsNets
from tazza.operator.trust import RUN
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime.closing import Closing
from tazza.runtime.collecting import uncollected
from tazza.runtime.files import kind_of
from tazza.runtime.flags import flag
from tazza.runtime.invariance import BATCH_INVARIANT
from tazza.runtime.threads import thread_count
from tazza.tensor import Blob, DataType, Tensor
from tazza.tensor.place import CPU_KIND
from tazza.workspace import Workspace, feedable, put, take

if TYPE_CHECKING:
    from tazza.interop.predictor_file import PredictorFile

SEATS = flag(
    "predictor_seats", 0, "how many threads run one predictor at a time; 0: as many as the process has", minimum=0
)

LENT_BYTES = 1 << 16
"""Inputs of this size or more are read where the caller has them; smaller ones are copied in less time."""

_POP = deque["_Seat"].pop

Source = NetDef | str | os.PathLike[str]
"""A net, or the file that holds one."""


class Predictor(Closing):
    """Runs a net on inputs that are given by name. It owns its workspace; use it in a `with` block, or call `close`.

    >>> from tazza.proto.message import parse_text
    >>> net = parse_text(NetDef, 'op { type: "Relu" input: "x" output: "y" } external_input: "x"', "an example")
    >>> with Predictor(net) as predictor:
    ...     predictor.inputs, predictor.run(x=np.float32([-1, 2]))
    (('x',), {'y': array([0., 2.], dtype=float32)})
    """

    @uncollected
    def __init__(
        self,
        predict_net: NetDef,
        workspace: Workspace | None = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        trust: bool = False,
        batch_invariant: bool = False,
    ) -> None:
        """Make the net runnable.

        Args:
            predict_net: what to run; arguments that an operator does not know are reported once, and kept.
            workspace: holds the parameters; the predictor owns it from now on.
            inputs: what `run` takes; by default what the net reads, does not make, and the workspace does not hold.
            outputs: what `run` gives; by default the declared outputs, without any what is written and never read.
            trust: let the net read and write files and databases, and run operators that declare no effects.
            batch_invariant: give each image the same bits whatever the others of its batch are; see `docs/batches.md`.

        Raises:
            TrustError: it would, and nobody said that it may.
            NetError: something that the net reads is neither input nor in the workspace; nothing makes an output.
            TazzaError: an operator is not legal.
        """
        check_trust(predict_net, RUN, source="the predict net", trust=trust)
        self.workspace = Workspace() if workspace is None else workspace
        read = needed_blobs(predict_net)
        missing = [name for name in read if not self.workspace.has_blob(name)]
        self.inputs = tuple(missing if inputs is None else inputs)
        self.outputs = tuple(_outputs(predict_net) if outputs is None else outputs)
        absent = [name for name in missing if name not in self.inputs]
        if absent:
            raise NetError(
                f"net {predict_net.name!r} reads {absent[0]!r}, which is no input and has no value",
                hint=f"inputs are {', '.join(self.inputs)}: name it among them, or let the init net make it",
            )
        made = touched_by(predict_net).writes
        strange = [name for name in self.outputs if name not in made]
        if strange:
            raise NetError(
                f"net {predict_net.name!r} does not make the output {strange[0]!r}", hint="name a blob it writes"
            )
        self.dtypes = {name: _dtypes(predict_net, name) for name in self.inputs}
        self.definition = self._planned(predict_net, batch_invariant)
        self._closed = False
        self._names = frozenset(self.inputs)
        own = {*self.inputs, *self.outputs}
        self.writes_shared = any(name in made and name not in own for name in read)
        """Whether the net writes blobs of the workspace that it also reads: one caller at a time can run it."""
        first = _Seat(self, None)
        self.net = first.running
        """The net that runs, for observers and `explain`; other threads run clones of it."""
        self._seats = Seats(first, self._most_seats)

    def _planned(self, net: NetDef, batch_invariant: bool) -> NetDef:
        """Return the net as it will run: compiled, unless its type says that it shall run otherwise."""
        made = NetDef()
        made.CopyFrom(net)
        if not made.type or NETS.get(made.type) is SimpleNet:
            made.type = PLAN
        if batch_invariant:
            kept = [one for one in made.arg if one.name != BATCH_INVARIANT.name]
            del made.arg[:]
            made.arg.extend([*kept, make_argument(BATCH_INVARIANT.name, 1)])
        if made.type == PLAN:
            del made.external_output[:]
            made.external_output.extend(self.outputs)
            if find_argument(made, "inputs") is None:
                made.arg.append(make_argument("inputs", list(self.inputs)))
        return made

    def __repr__(self) -> str:
        return f"Predictor({self.name!r}: {', '.join(self.inputs)} -> {', '.join(self.outputs)})"

    def _repr_html_(self) -> str:
        """Return it for a notebook: what it takes, what it gives, and its net."""
        from tazza.graph.html import net_html
        from tazza.runtime.html import heading, table

        types = {name: "any type" if dtypes is None else _one_of(dtypes) for name, dtypes in self.dtypes.items()}
        rows = [("takes", name, types[name]) for name in self.inputs]
        rows += [("gives", name, "") for name in self.outputs]
        return heading(repr(self)) + table(("", "blob", "elements"), rows) + net_html(self.definition, self.name)

    @property
    def name(self) -> str:
        """The name of the net."""
        return self.definition.name

    def run(self, values: Mapping[str, Any] | Sequence[Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """Run the net once and return its outputs: fresh arrays.

        Args:
            values: array by input, for names that are no Python names; or a list of arrays, in the order of `inputs`.
            **named: array by input.

        Raises:
            ArgumentError: an input is missing, unknown or given twice; or the predictor is closed.
            DTypeError: an input has elements of another type than its readers take.
            ShapeError: the shapes of inputs do not fit the net.
        """
        plain = type(values) is dict  # what runs most: it need not be looked at or copied
        given: Any = values
        if values is None:
            given = named
        elif named or not plain:
            given = self._merged(values, named)
        if given.keys() != self._names:
            self._check_names(given)
        seats = self._seats
        held: list[_Seat] = []
        try:
            if not seats.line:
                try:
                    held += map(_POP, seats.ready)  # taken and noted in one step of the interpreter, so no lock
                except IndexError:
                    pass  # `wait` does
            if not held and not seats.wait(held, self._new_seat):
                raise ArgumentError(f"{self!r} is closed", hint="load it again")
            return held[0].run(given)
        finally:
            seats.free.extend(held)  # as `give_back` does, whose own first step could be interrupted
            if seats.line:
                seats.serve()

    def _merged(self, values: Mapping[str, Any] | Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        if isinstance(values, (list, tuple)):
            values = self._by_place(values)
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            first = self.inputs[0] if self.inputs else "name"
            raise ArgumentError(f"{self!r} takes inputs by name, not a {kind}", hint=f"run({first}=...), or run([...])")
        twice = sorted(values.keys() & named.keys())
        if twice:
            raise ArgumentError(f"input {twice[0]!r} is given twice", hint="pass it in the mapping or by name")
        return {**values, **named}

    def _new_seat(self) -> _Seat:
        return _Seat(self, self.net)

    def _by_place(self, values: Sequence[Any]) -> dict[str, Any]:
        if len(values) > len(self.inputs):
            raise ArgumentError(
                f"{self!r} is given {len(values)} values, it has {len(self.inputs)} inputs",
                hint=f"in this order: {', '.join(self.inputs)}",
            )
        return dict(zip(self.inputs, values, strict=False))

    def _most_seats(self) -> int:
        """Nets that write what all seats share, or keep blobs in the workspace, run only once at a time."""
        if not isinstance(self.net, PlanNet) or self.writes_shared:
            return 1
        return SEATS.value if SEATS.value > 0 else thread_count()

    def _check_names(self, given: Mapping[str, Any]) -> None:
        missing = [name for name in self.inputs if name not in given]
        unknown = [name for name in given if name not in self.inputs]
        if missing or unknown:
            parts = [f"lacks {', '.join(missing)}"] if missing else []
            parts += [f"has no input {', '.join(unknown)}"] if unknown else []
            raise ArgumentError(
                f"predictor {self.name!r} {' and '.join(parts)}", hint=f"inputs: {', '.join(self.inputs)}"
            )

    def checked(self, name: str, value: Any) -> Any:
        """Return what can be fed: arrays and tensors of a type that the readers of the input take."""
        if isinstance(value, (Tensor, bytes, str)) or not hasattr(value, "__array__"):
            return feedable(name, value)
        array: NDArray[Any] = np.asarray(value)
        allowed = self.dtypes[name]
        if allowed is not None and DataType.of(array) not in allowed:
            wanted = _one_of(allowed)
            raise DTypeError(
                f"input {name!r} of predictor {self.name!r} is {array.dtype.name}, it must be {wanted}",
                hint=f"pass {name}.astype(...)",
            )
        return array

    def close(self) -> None:
        """End the nets and drop the workspace, once nobody runs any more; closing twice is allowed."""
        if not self._closed:
            for seat in self._seats.close():
                seat.running.close()
            self.workspace.reset()
            self._closed = True


class _Seat(OwnsNets):
    """A net that one caller at a time runs: inputs and outputs of its own, everything else from the workspace."""

    def __init__(self, predictor: Predictor, first: NetBase | None) -> None:
        self._predictor = predictor
        self._workspace = predictor.workspace
        own = (*predictor.inputs, *predictor.outputs)
        self._blobs = {name: Blob(name) for name in own}
        self._outputs = predictor.outputs
        self._lendable: frozenset[str] = frozenset()
        self.running: NetBase
        if isinstance(first, PlanNet):
            self.running = first.clone(self)
        else:
            self.running = create_net(predictor.definition, self)
        if isinstance(self.running, PlanNet) and not predictor.writes_shared:
            self._lendable = frozenset(predictor.inputs).difference(predictor.outputs)

    @property
    def root(self) -> Path:
        """The folder that relative paths count from."""
        return self._workspace.root

    def get_blob(self, name: str) -> Blob | None:
        """Return a blob, or None."""
        own = self._blobs.get(name)
        return self._workspace.get_blob(name) if own is None else own

    def create_blob(self, name: str) -> Blob:
        """Return a blob, made empty where it is missing."""
        own = self._blobs.get(name)
        return self._workspace.create_blob(name) if own is None else own

    def blob_names(self, *, shared: bool = True) -> list[str]:
        """Return the sorted names that stand for a blob here; without `shared` those of its own blobs."""
        return sorted({*self._blobs, *(self._workspace.blob_names() if shared else ())})

    def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Run the net on inputs by name."""
        lent: dict[str, NDArray[Any]] = {}
        for name, value in given.items():
            blob = self._blobs[name]
            tensor = blob.value
            # What has the type of the last input needs no check; an object array never has.
            if type(value) is np.ndarray and isinstance(tensor, Tensor):
                if value.nbytes >= LENT_BYTES and name in self._lendable and _lies_as(tensor, value):
                    lent[name] = value
                    continue
                if tensor.overwrite(value):
                    continue
            put(blob, self._predictor.checked(name, value))
        if lent:
            cast("PlanNet", self.running).run_on(lent)
        else:
            self.running.run()
        return {name: take(self._blobs[name]) for name in self._outputs}


def _one_of(dtypes: Iterable[DataType]) -> str:
    return " or ".join(sorted(dtype.label for dtype in dtypes))


def _lies_as(tensor: Tensor, array: NDArray[Any]) -> bool:
    """Whether an array could be read in a tensor's place."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned and tensor.has_form(array)


@uncollected
def load(
    init_net: Source,
    predict_net: Source | None = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    db_type: str | None = None,
    name: str = "",
    device: str | None = None,
    trust: bool = False,
    batch_invariant: bool = False,
) -> Predictor:
    """Load a model: an init net and a predict net, a folder that holds both, or one predictor file.

    Loading computes and draws random numbers. What runs may also keep state and write blobs of its own workspace; for
    whatever else a net does, `trust` is asked.

    Args:
        init_net: the net that makes the parameters, or its file, binary or text; with nothing else a predictor file, or
            a folder in which the files of a model have names that people give them, see `interop.model_folder`.
        predict_net: the net that computes, or its file.
        inputs: what `run` takes; by default what the file says, or what the init net does not make or makes only so
            that it exists, see `interop.chosen_inputs`.
        outputs: what `run` gives; by default what the file or the net declares.
        db_type: kind of database of a predictor file, see `PredictorFile.read`.
        name: which predictor of a predictor file.
        device: "cpu" runs a net on the CPU that was saved for another device; by default each runs where it says.
        batch_invariant: give each image the same bits whatever the others of its batch are; see `docs/batches.md`.
        trust: let its nets read and write files and databases, and run operators that declare no effects: for models
            of your own, or whose nets you have read.

    Raises:
        FileError, DBError, FormatError: a file is missing or broken.
        ArgumentError: the net reads none of that name that `inputs` says.
        TrustError: a net would do more than compute, and `trust` is not set; nothing has run then.
        NetError: the two nets do not fit each other, or stand in each other's place.
        UnknownOperatorError: nobody declares an operator, or nothing computes it on the device that it was saved for.
    """
    if device not in (None, CPU_KIND):
        raise ArgumentError(
            f"device = {device!r} is not 'cpu'", hint="leave it out to run a net where it was saved for"
        )
    wanted = _Wanted(inputs, outputs, device, trust, batch_invariant)
    workspace = Workspace()
    try:
        if predict_net is not None:
            return _load_nets(init_net, predict_net, workspace, wanted)
        if isinstance(init_net, NetDef):
            raise ArgumentError("an init net alone predicts nothing", hint="pass the predict net as well")
        if db_type is None and _is_folder_of_nets(init_net):
            found = find_nets(init_net)
            if found.init is not None:
                return _load_nets(found.init, found.main, workspace, wanted.with_inputs(found.inputs))
            init_net = found.main
        return _load_file(_predictor_file(init_net, db_type, name), workspace, wanted)
    except BaseException:
        workspace.reset()
        raise


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the caller of `load` says."""

    inputs: Sequence[str] | None
    outputs: Sequence[str] | None
    device: str | None
    trust: bool
    batch_invariant: bool

    def with_inputs(self, extents: Mapping[str, object] | None) -> _Wanted:
        """Return this with the inputs that a folder tells, where the caller says none."""
        return self if extents is None or self.inputs is not None else replace(self, inputs=tuple(extents))

    def predictor(
        self, net: NetDef, workspace: Workspace, inputs: Sequence[str], outputs: Sequence[str] | None
    ) -> Predictor:
        """Return what runs the net."""
        how = {"trust": self.trust, "batch_invariant": self.batch_invariant}
        return Predictor(net, workspace, inputs=inputs, outputs=outputs, **how)

    def placed(self, net: NetDef) -> NetDef:
        """Return the net for the device that is wanted."""
        return net if self.device is None else on_cpu(net)

    def check(self, net: NetDef, source: str) -> None:
        """Refuse a predict net that does more than it may, before anything runs."""
        check_trust(net, RUN, source=source, trust=self.trust)


def _load_nets(init_net: Source, predict_net: Source, workspace: Workspace, wanted: _Wanted) -> Predictor:
    init, predict = (
        wanted.placed(read_message(net, NetDef) if not isinstance(net, NetDef) else net)
        for net in (init_net, predict_net)
    )
    _check_places(init, predict)
    check_inputs(predict, wanted.inputs or ())
    wanted.check(predict, "the predict net" if isinstance(predict_net, NetDef) else f"'{predict_net}'")
    source = "the init net" if isinstance(init_net, NetDef) else f"'{init_net}'"
    run_init_net(init, workspace, source=source, trust=wanted.trust)
    taken = choose_inputs(init, predict, wanted.inputs).names
    return wanted.predictor(predict, workspace, taken, wanted.outputs)


def _is_folder_of_nets(path: str | os.PathLike[str]) -> bool:
    return kind_of(path) == "folder" and kind_of(Path(path, "data.mdb")) is None


def _predictor_file(path: str | os.PathLike[str], db_type: str | None, name: str) -> PredictorFile:
    from tazza.interop.predictor_file import PredictorFile  # with all that builds models, which nets do not need

    try:
        return PredictorFile.read(path, db_type=db_type, name=name)
    except (DBError, FormatError) as error:
        if Path(path).suffix not in NET_SUFFIXES:
            raise
        hint = "a net is loaded together with its init net: tazza.load(init_net, predict_net), or their folder"
        raise type(error)(error.message, hint=hint) from error


def _check_places(init: NetDef, predict: NetDef) -> None:
    """Notice nets that stand in each other's place: what should predict reads nothing, what should make reads that."""
    made = {name for op in predict.op for name in op.output}
    takes = any(name not in made for op in predict.op for name in op.input)
    read = {name for op in init.op for name in op.input} - {name for op in init.op for name in op.output}
    if made and not takes and read & made:
        raise NetError(
            f"the two nets stand in each other's place: the one given as predict net ({predict.name!r}) makes "
            f"{min(read & made)!r}, which the one given as init net ({init.name!r}) reads",
            hint="swap them: tazza.load(init_net, predict_net); the init net makes the parameters",
        )


def _load_file(file: PredictorFile, workspace: Workspace, wanted: _Wanted) -> Predictor:
    from tazza.db import DBReader
    from tazza.interop.predictor_file import ROLES

    taken = file.blobs(ROLES.INPUTS_BLOB_TYPE) if wanted.inputs is None else tuple(wanted.inputs)
    given = file.blobs(ROLES.OUTPUTS_BLOB_TYPE) if wanted.outputs is None else tuple(wanted.outputs)
    source = f"'{file.source}'"
    predict = wanted.placed(file.net(ROLES.PREDICT_NET_TYPE))
    check_inputs(predict, wanted.inputs or ())
    wanted.check(predict, source)
    reader = workspace.create_blob(ROLES.PREDICTOR_DBREADER)
    with DBReader(file.db_type, str(Path(file.source).absolute())) as records:
        reader.set(records)
        run_init_net(
            wanted.placed(file.net(ROLES.GLOBAL_INIT_NET_TYPE)),
            workspace,
            source=source,
            reader=ROLES.PREDICTOR_DBREADER,
            trust=wanted.trust,
        )
    workspace.remove_blob(ROLES.PREDICTOR_DBREADER)
    prepare = file.find_net(ROLES.PREDICT_INIT_NET_TYPE)
    if prepare is not None:
        run_init_net(wanted.placed(_without(prepare, {*taken, *given})), workspace, source=source, trust=wanted.trust)
    return wanted.predictor(predict, workspace, taken, given)


def _without(net: NetDef, names: set[str]) -> NetDef:
    """Return a net without the operators that only make these blobs, which come from the caller or from another net."""
    made = NetDef()
    made.CopyFrom(net)
    kept = [op for op in net.op if not op.output or not names.issuperset(op.output)]
    del made.op[:], made.external_input[:], made.external_output[:]
    made.op.extend(kept)
    return made


def _outputs(net: NetDef) -> list[str]:
    if net.external_output:
        return list(net.external_output)
    touched = [touches(op) for op in net.op]
    last_read = {name: position for position, each in enumerate(touched) for name in each.reads}
    written = {name: position for position, each in enumerate(touched) for name in each.writes}
    return [name for name, position in written.items() if last_read.get(name, -1) <= position]


def _dtypes(net: NetDef, name: str) -> frozenset[DataType] | None:
    """Return the element types that every reader of a blob takes, until an operator overwrites it; None: any."""
    allowed: frozenset[DataType] | None = None
    for op in net.op:
        view = find_schema(op.type).view(op)
        for letter, read in zip(view.input_letters, op.input, strict=True):
            declared = view.schema.inputs_by_letter[letter].dtypes
            if read == name and declared is not None and not isinstance(declared, str):
                taken = frozenset({declared}) if isinstance(declared, DataType) else declared
                allowed = taken if allowed is None else allowed & taken
        if name in touches(view).certain:
            break
    return allowed

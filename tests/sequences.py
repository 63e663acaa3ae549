"""Cases of operators that keep something: steps over one workspace, and what each must leave there.

A `Sequence` is data, as a `Case` of arrays is; `check_op` runs both. It takes what works on blobs that are no tensors
(counters, queues, mutexes, records), on files, or on what a blob held before. Sequences of the genuine Caffe2, in
`tests/data/golden/sequences`, are read as such cases by `recorded`.
"""

from __future__ import annotations

import io
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import device_option
from tazza.errors import BlobTypeError, TazzaError
from tazza.operator import Effects, effects_of, find_schema, touches, why_unavailable
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Place, Tensor
from tazza.tensor.serialization import deserialize, serialize
from tazza.workspace import Workspace
from tests.check import assert_close

FOLDER = Path(__file__).parent / "data" / "golden" / "sequences"
MOST_S = 30.0
"""What tells that something hangs."""

Seen = dict[str, tuple[Any, int]]
"""What each blob of a workspace holds, in bytes where it can be stored, and which object it is where it cannot."""


@dataclass(frozen=True)
class Step:
    """What is fed, an operator, and what is there behind it; or the error that it raises, with its text."""

    op: OperatorDef
    leaves: Mapping[str, Any] = field(default_factory=dict[str, Any])
    feeds: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fails: type[TazzaError] | None = None
    text: str = ""
    prints: str | None = None


@dataclass(frozen=True)
class Sequence:
    """Steps over one workspace, and `beside` them those of others: at once, each in a workspace of its own.

    `stored`: all that lies between two steps can be saved, so that whoever loads it can go on. `files` are there before
    the first step, by their names in the folder of the workspace. A `slack` of 0 asks for the same bits, another one is
    that of a `Case`.
    """

    id: str
    steps: tuple[Step, ...]
    beside: tuple[tuple[Step, ...], ...] = ()
    stored: bool = False
    slack: float = 0.0
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    def types(self) -> set[str]:
        """Return the types that the case is of."""
        return {step.op.type for steps in (self.steps, *self.beside) for step in steps}

    def check(self, place: Place | None = None) -> None:
        """Run the steps in each way and assert all that must hold; host work is done for a device at `place`."""
        every = [tuple(_at(step, place) for step in steps) for steps in (self.steps, *self.beside)]
        if place is not None:
            assert any(step.op.device_option.device_type for steps in every for step in steps), "nothing ran there"
        with TemporaryDirectory() as folder:
            alone = self._together(every, _alone, Path(folder))
            for way in (_as_nets, _by_workers, *([_through_files] if self.stored else [])):
                for first, again in zip(alone, self._together(every, way, Path(folder)), strict=True):
                    for position, seen in again.items():
                        wanted = {name: value for name, (value, _) in first[position].items()}
                        found = {name: value for name, (value, _) in seen.items()}
                        assert found == wanted, f"step {position}, {way.__name__}: not what the operators alone leave"

    def _folder(self, root: Path) -> Path:
        """Return a folder with the files of the case alone, of the same name each time."""
        folder = root / "home"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder

    def _together(self, every: list[tuple[Step, ...]], way: Way, root: Path) -> list[dict[int, Seen]]:
        """Run all of them at once; returns by step what was seen behind it."""
        left: list[dict[int, Seen]] = [{} for _ in every]
        errors: list[BaseException] = []
        folder = self._folder(root)

        def run(number: int) -> None:
            try:
                way(self, every[number], Workspace(root=folder), left[number])
            except BaseException as error:
                errors.append(error)

        others = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(1, len(every))]
        for thread in others:
            thread.start()
        run(0)
        for thread in others:
            thread.join(MOST_S)
            assert errors or not thread.is_alive(), "a step hangs"
        if errors:
            raise errors[0]
        return left


Way = Callable[[Sequence, tuple[Step, ...], Workspace, dict[int, Seen]], None]


def on_sequences(cases: list[Sequence]) -> Any:
    """Parametrize a test over sequences."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


def _alone(case: Sequence, steps: tuple[Step, ...], home: Workspace, left: dict[int, Seen]) -> None:
    """Run operator by operator, and assert what each leaves: what is expected, and nothing but what it declares."""
    for position, step in enumerate(steps):
        _feed(home, step)
        before, version = _seen(home), OperatorDef.FromString(step.op.SerializeToString())
        assert version == step.op
        where = f"step {position}, {step.op.type}"
        _run(home, step, lambda version=version: home.run_operator(version), where)
        left[position] = _seen(home)
        _check_effects(step, before, left[position], where)
        for name, wanted in step.leaves.items():
            _compare(f"{where}: {name!r}", home.fetch(name), wanted, case.slack)
    if not case.stored and any(step.fails is None for step in steps):
        kept = [name for name, (_, object_id) in left[len(steps) - 1].items() if object_id]
        assert kept, "all that is left can be saved: say so by `stored`"
        with pytest.raises(BlobTypeError, match="cannot be serialized"):
            serialize(home.blob(kept[0]).value, kept[0])


def _as_nets(case: Sequence, steps: tuple[Step, ...], home: Workspace, left: dict[int, Seen]) -> None:
    """Run what follows upon each other without anything fed or failing between as one net."""
    del case
    begins = [
        n for n, step in enumerate(steps) if n == 0 or _stands_alone(step) or _stands_alone(steps[n - 1], fed=False)
    ]
    for first, end in pairwise([*begins, len(steps)]):
        stretch = steps[first:end]
        _feed(home, stretch[0])
        net = NetDef(name="stretch", type="simple", op=[step.op for step in stretch])
        _run(home, stretch[0], lambda net=net: home.run_net_once(net), f"steps {first} to {end}")
        left[end - 1] = _seen(home)


def _stands_alone(step: Step, *, fed: bool = True) -> bool:
    return bool((fed and step.feeds) or step.fails is not None or step.prints is not None)


def _by_workers(case: Sequence, steps: tuple[Step, ...], home: Workspace, left: dict[int, Seen]) -> None:
    """Run each operator on the workers of a parallel net."""
    del case
    for position, step in enumerate(steps):
        _feed(home, step)
        net = NetDef(name="one", type="async_scheduling", num_workers=2, op=[step.op])
        _run(home, step, lambda net=net: home.run_net_once(net), f"step {position} by workers")
        left[position] = _seen(home)


def _through_files(case: Sequence, steps: tuple[Step, ...], home: Workspace, left: dict[int, Seen]) -> None:
    """Go on behind each step with what was saved and loaded."""
    del case
    for position, step in enumerate(steps):
        stored = _seen(home)
        home = Workspace(root=home.root)
        for name, (content, object_id) in stored.items():
            assert not object_id, f"{name!r} cannot be saved before step {position}: the case is not `stored`"
            made = home.create_blob(name)
            if content is not None:
                made.set(deserialize(content).value)
        _feed(home, step)
        _run(home, step, lambda home=home, op=step.op: home.run_operator(op), f"step {position} from files")
        left[position] = _seen(home)


def _at(step: Step, place: Place | None) -> Step:
    """Return a step for a place, if its operator is work of the host for any device."""
    if place is None or why_unavailable(step.op.type, place.kind, "reference") is not None:
        return step
    moved = OperatorDef.FromString(step.op.SerializeToString())
    moved.device_option.CopyFrom(device_option(place))
    return Step(moved, step.leaves, step.feeds, step.fails, step.text, step.prints)


def _feed(home: Workspace, step: Step) -> None:
    for name, value in step.feeds.items():
        if value is None:
            home.create_blob(name)
        else:
            home.feed(name, value.item() if _is_text(value) else value)


def _is_text(value: Any) -> bool:
    array = np.asarray(value)
    return isinstance(value, np.ndarray) and array.dtype == object and array.ndim == 0


def _run(home: Workspace, step: Step, run: Callable[[], None], where: str) -> None:
    """Run, and assert the error and the text that a step shows."""
    del home
    shown = io.StringIO()
    with nullcontext() if step.prints is None else redirect_stdout(shown):
        if step.fails is None:
            try:
                run()
            except BaseException as error:
                error.add_note(where)
                raise
        else:
            with pytest.raises(step.fails, match=step.text if step.text else None) as caught:
                run()
            assert str(caught.value), where
    assert step.prints is None or shown.getvalue() == step.prints, where


def _seen(home: Workspace) -> Seen:
    return {name: _content(home.blob(name).value, name, home) for name in home.blob_names()}


def _content(value: object, name: str, home: Workspace) -> tuple[Any, int]:
    if value is None or (isinstance(value, Tensor) and not value.allocated):
        return None, 0
    try:
        return serialize(value, name), 0
    except BlobTypeError:
        return home.blob(name).type_name, id(value)


def _check_effects(step: Step, before: Seen, after: Seen, where: str) -> None:
    """Nothing may have changed but what is declared: what is written, and state that lies in an input."""
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    allowed = set(step.op.output)
    if step.fails is None:
        view = find_schema(step.op.type).view(step.op)
        letters, read = view.schema.inputs_by_letter, zip(step.op.input, view.input_letters, strict=True)
        stateful = effects_of(step.op) >= Effects.STATE
        allowed |= {*touches(step.op).writes, *(name for name, one in read if stateful and letters[one].type_name)}
        if effects_of(step.op) == Effects.WORKSPACE:
            allowed |= {told for name in step.op.output for told in _texts(after[name][0])}
    assert changed <= allowed, f"{where} changes {sorted(changed - allowed)}, which it does not declare"


def _texts(content: Any) -> set[str]:
    """Return the texts of a tensor of texts, by which an operator says what else it wrote."""
    value = deserialize(content).value if isinstance(content, bytes) else None
    texts: list[Any] = value.numpy().ravel().tolist() if isinstance(value, Tensor) else []
    return {text.decode() for text in texts if isinstance(text, bytes)}


def _compare(where: str, found: Any, wanted: Any, slack: float) -> None:
    if isinstance(found, bytes):
        assert found == (wanted.item() if isinstance(wanted, np.ndarray) else wanted), where
        return
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), where
    if slack:
        assert_close(found, wanted, slack)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=where)


# -- recorded ----------------------------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    feeds: dict[str, NDArray[Any]]
    op: OperatorDef
    leaves: dict[str, NDArray[Any]]
    fails: bool


def names() -> list[str]:
    """Return the names of all recorded sequences."""
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


def recorded(name: str, *, wider: bool = False, stored: bool = False) -> Sequence:
    """Return a recorded sequence as a case: of each rank where each had its own.

    What raised there raises here; `wider`: it runs here, where more element types are taken.
    """
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        parts = {key: file[key] for key in file.files}
    ranks = sorted({key.split("/")[0] for key in parts if key.startswith("rank")})
    first, *beside = (
        tuple(_step(one, wider=wider) for one in _steps(parts, f"{rank}/" if rank else "")) for rank in ranks or [""]
    )
    return Sequence(name, first, tuple(beside), stored)


def _step(one: _Stored, *, wider: bool) -> Step:
    if one.fails:
        return Step(one.op, {}, one.feeds, None if wider else TazzaError)
    return Step(one.op, one.leaves, one.feeds)


def _steps(every: dict[str, NDArray[Any]], within: str) -> Iterator[_Stored]:
    own = {key.removeprefix(within): value for key, value in every.items() if key.startswith(within)}
    for at in sorted({key.split("/")[0] for key in own}):
        parts = {key.removeprefix(f"{at}/"): value for key, value in own.items() if key.startswith(f"{at}/")}
        feeds = {key.removeprefix("feed/"): _text(parts.pop(key)) for key in list(parts) if key.startswith("feed/")}
        definition = OperatorDef.FromString(parts.pop("op").tobytes())
        fails = parts.pop("fails", None) is not None
        yield _Stored(feeds, definition, {key: _text(value) for key, value in parts.items()}, fails)


def _text(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(object) if array.dtype.kind == "S" else array

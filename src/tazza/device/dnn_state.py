"""States of a DNN library: a few per device, shared by all threads, each used by one at a time.

    with dnn_state(place) as state:
        library.convolve(state.handle, state.workspace(nbytes).address, ...)  # queues on state.stream

Handles of such libraries are dear and bound to one stream, and their workspaces are large. So a device has
`dnn_states` of them (a flag); kernels that name the same one share its workspace, and run one after the other. Those
that name different ones may overlap.

A state has a stream of its own. Who enters waits for nothing: the state's stream waits for what the user's stream has
got, and the user's stream then for what the state's has got meanwhile. Where the user has no stream (the CPU outside
of `streaming`), all of it has ended when the block is left.

State: the table of states changes under `_lock`; what a state holds is used by whoever holds its mutex. Invariants: the
mutex is free after every block, whatever failed in it; a failure of the work goes to the user's stream (or is raised,
where there is none), and the next user's work runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from tazza.data_class import dataclass
from tazza.device.event import Event, recorded
from tazza.device.initializer import device_of, load_kind
from tazza.device.stream import POOL_SIZE, PRIORITIES, Stream, current_stream, maker_of
from tazza.errors import ArgumentError, TazzaError
from tazza.registry import Registry
from tazza.runtime.flags import flag
from tazza.runtime.fork import freed_in_child, in_forked_child
from tazza.tensor import Allocation, Place, allocator_of

DNN_STATES = flag("dnn_states", 4, "states of the DNN library that the threads of a device share", minimum=1)


@dataclass(frozen=True, slots=True)
class DNNLibrary:
    """How handles of a library are made and ended; `create` gets the place and the stream that the handle works on."""

    create: Callable[[Place, Stream], Any]
    close: Callable[[Any], None]


DNN_LIBRARIES: Registry[str, DNNLibrary] = Registry("kind of place with a DNN library", loader=load_kind)
"""The library whose handles the states of a kind of place hold; engines fill it."""


class DNNState:
    """A handle, a workspace and a stream; used inside of `dnn_state` only."""

    def __init__(self, place: Place, index: int) -> None:
        """Make the stream; the handle and the workspace are made when they are asked for.

        Raises:
            UnavailableError: the place has no streams, or is not there.
        """
        self.place = place
        self.index = index
        self.stream = maker_of(place)(place, POOL_SIZE + 1 + index, PRIORITIES[0])  # numbers behind those of the pool
        self._mutex = freed_in_child(threading.Lock())
        self._user: int | None = None
        self._held: tuple[DNNLibrary, Any] | None = None
        self._workspace: Allocation | None = None

    def __repr__(self) -> str:
        return f"DNNState({self.place}, {self.index}, {self.workspace_bytes} bytes of workspace)"

    @property
    def handle(self) -> Any:
        """The library's handle, made on first use.

        Raises:
            NotFoundError: no library is registered for this kind of place.
        """
        if self._held is None:
            library = DNN_LIBRARIES[self.place.kind]
            self._held = library, library.create(self.place, self.stream)
        return self._held[1]

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the workspace now."""
        return 0 if self._workspace is None else self._workspace.nbytes

    def workspace(self, nbytes: int) -> Allocation:
        """Return at least `nbytes` of memory for work on `stream`, the same as before where that was enough.

        Raises:
            OutOfMemoryError: there is not that much.
        """
        if self._workspace is None or self._workspace.nbytes < nbytes:
            self._drop_workspace()
            self._workspace = allocator_of(self.place).allocate(nbytes, f"DNN state {self.index}")
        return self._workspace

    def _drop_workspace(self) -> None:
        """Let the workspace go when the work that uses it has ended."""
        old, self._workspace = self._workspace, None
        if old is not None and not self.stream.query():
            recorded(self.stream).on_done(lambda _, kept=old: None)

    @contextmanager
    def _used(self) -> Generator[None]:
        """Take the state for this thread.

        Raises:
            TazzaError: this thread is using it already.
        """
        if self._user == threading.get_ident():
            raise TazzaError(
                f"this thread uses {self!r} already, and would wait for itself", hint="leave the first block before"
            )
        with self._mutex:
            try:
                self._user = threading.get_ident()
                yield
            finally:
                self._user = None

    @contextmanager
    def lent(self, user: Stream | None) -> Generator[DNNState]:
        """Lend the state to this thread, in order with `user`; see `dnn_state`.

        Raises:
            TazzaError: this thread is using it already.
        """
        with self._used():
            ended = False
            try:
                if user is not None:
                    self.stream.wait_for(recorded(user))
                yield self
                ended = True
            finally:
                try:
                    self._follow(user, raising=ended)
                except Exception:
                    raise
                except BaseException:  # an interrupt
                    self._follow(user, raising=False)
                    raise

    def _follow(self, user: Stream | None, *, raising: bool) -> None:
        """Let `user` continue after what the state's stream has got.

        Without a stream to tell, this waits, and raises what the work failed with where `raising`.
        """
        done = recorded(self.stream)
        self.stream.recover()
        if user is not None:
            user.wait_for(done)
        else:
            _wait(done, raising=raising)

    def close(self) -> None:
        """End the handle and give the workspace back, when the work has ended; both are made anew when asked for.

        Raises:
            TazzaError: this thread is using it.
        """
        with self._used():
            _wait(recorded(self.stream), raising=False)
            held, self._held = self._held, None
            self._workspace = None
            if held is not None:
                library, handle = held
                library.close(handle)


def _wait(event: Event, *, raising: bool) -> None:
    try:
        event.wait()
    except Exception:
        if raising:
            raise


_lock = freed_in_child(threading.Lock())
_states: dict[tuple[Place, int], DNNState] = {}


in_forked_child(_states.clear)


@contextmanager
def dnn_state(place: Place, index: int = 0, user_stream: Stream | None = None) -> Generator[DNNState]:
    """Lend state `index` of a device to this thread, in order with `user_stream`, by default the thread's current one.

    What the block queues on `state.stream` comes after what the user's stream has got before, and before what it gets
    afterwards. Where the block itself raises, that is raised; the state is free and in order all the same.

    Raises:
        ArgumentError: the index is not below the flag `dnn_states`.
        UnavailableError: the device is not there.
        TazzaError: the thread is in a block of this state already.

    >>> from tazza.tensor import CPUPlace
    >>> with dnn_state(CPUPlace()) as state:
    ...     memory = state.workspace(1000)
    ...     state.stream.enqueue(lambda context: memory.buffer.fill(7))
    >>> int(memory.buffer[-1])
    7
    """
    state = _state(place, index)
    user = current_stream(place) if user_stream is None else user_stream
    with state.lent(user):
        yield state


def _state(place: Place, index: int) -> DNNState:
    if not 0 <= index < DNN_STATES.value:
        raise ArgumentError(
            f"DNN state {index} of {place}: the flag dnn_states allows 0 to {DNN_STATES.value - 1}",
            hint="raise the flag, or name a lower one",
        )
    device_of(place)  # tells why it is not there
    with _lock:
        if (place, index) not in _states:
            _states[place, index] = DNNState(place, index)
        return _states[place, index]


def close_dnn_states(place: Place) -> None:
    """Give back what the states of a device hold, when their work has ended; it is made anew when asked for again.

    Raises:
        TazzaError: this thread uses one of them.
    """
    with _lock:
        states = [state for (where, _), state in _states.items() if where == place]
    for state in states:
        state.close()

"""Mutexes as blobs: CreateMutex. Operators that share something in a workspace take turns by holding one."""

from __future__ import annotations

from tazza.operator import Effects, blob, forbidden, host_kernel, schema
from tazza.runtime.holding import Held
from tazza.tensor import Blob
from tazza.tensor.blob import blob_type
from tazza.tensor.serializer import SERIALIZERS, ContentSerializer

MUTEX = "std::unique_ptr<std::mutex>"


@blob_type(MUTEX)
class Mutex(Held):
    """A lock that a blob holds: `with mutex: ...` waits until nobody else is inside. It is not reentrant.

    >>> mutex = Mutex()
    >>> with mutex:
    ...     mutex.held
    True
    """

    __slots__ = ()


class MutexSerializer(ContentSerializer[Mutex]):
    """Stores that there is a mutex; nothing of it can be stored."""

    type_name = MUTEX

    def encode(self, value: Mutex) -> bytes:
        return b""

    def decode(self, content: bytes, name: str) -> Mutex:
        return Mutex()


SERIALIZERS.register(MUTEX, MutexSerializer(), help="a mutex, without content")

CREATE_MUTEX = schema(
    "CreateMutex",
    """mutex_ptr = a new mutex that nobody holds.

    A blob that has something in it already is given the new mutex instead.""",
    outputs=[blob("mutex_ptr", type_name=MUTEX)],
    effects=Effects.STATE,
    no_gradient=forbidden("a mutex is no tensor"),
    source="Caffe2",
    example="""
    >>> run("CreateMutex").held
    False
    """,
)


@host_kernel(CREATE_MUTEX)
def create_mutex(mutex_ptr: Blob) -> None:
    mutex_ptr.set(Mutex())

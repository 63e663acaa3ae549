"""What changes a net after it was built."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

from caffe2.python import core


class NetModifier(metaclass=abc.ABCMeta):
    """Something that adds operators to a net; calling it does."""

    def __init__(self) -> None:  # noqa: B027 -- it takes nothing; those below it do
        """Begin with nothing."""

    @abc.abstractmethod
    def modify_net(self, net: Any, init_net: Any = None, grad_map: Any = None, blob_to_device: Any = None) -> None:
        """Add operators.

        Args:
            net: to be changed.
            init_net: that makes the parameters.
            grad_map: the gradient of each blob.
            blob_to_device: where blobs lie.
        """

    def __call__(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Change a net."""
        modify: Any = self.modify_net
        modify(
            net,
            init_net=init_net,
            grad_map=grad_map,
            blob_to_device=blob_to_device,
            modify_output_record=modify_output_record,
        )


def references(net: Any, blobs: Iterable[str]) -> list[Any]:
    """Return references to blobs that a net has."""
    names = list(blobs)
    for name in names:
        assert net.BlobIsDefined(name), f"blob {name} is not defined in net {net.Name()}: {net.Proto()}"
    return [core.BlobReference(name) for name in names]


def printed(net: Any, blob: Any, every_n: int) -> None:
    """Let a net print a blob in each so many runs; in none if that is below 1."""
    if every_n >= 1:
        net.Print(blob, [], every_n=every_n)


def recorded(net: Any, name: str, blob: Any, dtype: Any) -> None:
    """Add a blob to what a net says that it puts out."""
    from importlib import import_module

    schema: Any = import_module("caffe2.python.schema")
    scalar = schema.Scalar(dtype, blob)
    if net.output_record() is None:
        net.set_output_record(schema.Struct((name, scalar)))
    else:
        net.AppendOutputRecordField(name, scalar)

"""Transforms of nets by their old names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from caffe2.python import _import_c_extension as C
from tazza.proto import NetDef


class Transformer:
    """Each transform is a method that changes a net."""

    @classmethod
    def runTransform(cls, transform_name: str, net: Any) -> None:
        """Change a net by a transform."""
        net.Proto().CopyFrom(NetDef.FromString(C.run_transform(transform_name, net.Proto().SerializeToString())))

    def __getattr__(self, transform_name: str) -> Callable[[Any], None]:
        if not C.transform_exists(transform_name):
            raise AttributeError(f"there is no transform {transform_name}")
        return lambda net: self.runTransform(transform_name, net)


def fuseNNPACKConvRelu(net: Any) -> None:
    """Leave the net as it is: plans fuse rectifiers."""
    net.Proto().CopyFrom(NetDef.FromString(C.transform_fuseNNPACKConvRelu(net.Proto().SerializeToString())))


def fuseConvBN(net: Any) -> None:
    """Change a net: batch normalizations go into the weights before them, where these are known to be constant."""
    net.Proto().CopyFrom(NetDef.FromString(C.transform_fuseConvBN(net.Proto().SerializeToString())))


def optimizeForMKLDNN(net: Any, training_mode: bool = False) -> None:
    """Leave the net as it is: what runs on the processor was left so, and plans choose layouts and fuse."""
    del net, training_mode

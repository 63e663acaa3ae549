"""Rewritings of graphs of nets."""

from __future__ import annotations

from caffe2.python.nomnigraph import NNModule
from tazza.graph.channels_last import channels_last


def transpose_network(nn: NNModule) -> None:
    """Let convolutions compute with channels innermost."""
    channels_last(nn._NNModule.wiring)  # pyright: ignore[reportPrivateUsage]

"""What converters to and from ONNX raised; programs catch it, nothing here raises it."""

from __future__ import annotations

__all__ = ["BaseException", "Unsupported"]


class BaseException(Exception):
    """What all of them are."""


class Unsupported(BaseException):
    """An operator or argument that the other side does not know."""

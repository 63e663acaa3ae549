"""Parameters that are held between bounds wherever they are used."""

from __future__ import annotations

from typing import Any


def bounds_of(clip_param: Any) -> dict[str, float] | None:
    """Return the arguments of `Clip` for bounds (least, largest), of which one may be None; None for no bounds."""
    if clip_param is None:
        return None
    assert len(clip_param) == 2, f"clip_param is the least and the largest, not {clip_param}"
    given = {name: bound for name, bound in zip(("min", "max"), clip_param, strict=True) if bound is not None}
    assert given, "clip_param = [None, None] bounds nothing"
    assert len(given) < 2 or given["min"] < given["max"], f"clip_param = {clip_param}: the first must be less"
    return given


def clipped(net: Any, params: list[Any], bounds: dict[str, float] | None) -> list[Any]:
    """Return the parameters, or their clipped copies where there are bounds."""
    if bounds is None:
        return params
    names = [net.NextScopedBlob(f"clipped_{param}") for param in params]
    for param, name in zip(params, names, strict=True):
        net.Clip([param], [name], **bounds)
    return names

"""Which layers a net has: rules on its phase, level and stages."""

from __future__ import annotations

from tazza.interop.caffe.caffe_pb2 import LayerParameter, NetState, NetStateRule


def meets(state: NetState, rule: NetStateRule) -> bool:
    """Whether a state meets all conditions of a rule.

    >>> meets(NetState(level=2, stage=["a"]), NetStateRule(min_level=1, stage=["a"], not_stage=["b"]))
    True
    """
    stages = set(state.stage)
    return (
        (not rule.HasField("phase") or rule.phase == state.phase)
        and (not rule.HasField("min_level") or state.level >= rule.min_level)
        and (not rule.HasField("max_level") or state.level <= rule.max_level)
        and stages.issuperset(rule.stage)
        and stages.isdisjoint(rule.not_stage)
    )


def includes(state: NetState, layer: LayerParameter) -> bool:
    """Whether a layer is there: by any rule to include, or, if it has none, by no rule to exclude."""
    if layer.include:
        return any(meets(state, rule) for rule in layer.include)
    return not any(meets(state, rule) for rule in layer.exclude)

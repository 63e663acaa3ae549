"""What a net takes of memory, as far as shapes tell: blobs as they are made and freed, operator after operator.

Not counted: what is there before, what operators take for their own work, and that memory may be shared.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from tazza.data_class import dataclass
from tazza.device import merge
from tazza.operator import SCHEMAS
from tazza.ops.control.free import FREE
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.tensor import DataType

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Footprint:
    """Bytes of all blobs that were made, of those that were there at one time at most, and of each operator type."""

    made_bytes: int = 0
    peak_bytes: int = 0
    by_type: Counter[str] = field(default_factory=Counter[str])


def footprint(
    nets: Iterable[NetDef], shapes: Mapping[str, Sequence[int]], types: Mapping[str, int], device: DeviceOption
) -> Footprint:
    """Return what operators of one device make, net after net; a blob that is freed and made again counts twice.

    `types` are numbers of `TensorProto.DataType`. Blobs whose shape or type is not there count nothing, which the log
    says.

    >>> from tazza.graph.text import parse_net
    >>> net = parse_net("a = Relu(x)", "b = Relu(a)", "a = Free(a)", "c = Relu(b)")
    >>> shapes, types = dict.fromkeys("abc", (2, 3)), dict.fromkeys("abc", 1)
    >>> footprint([net], shapes, types, DeviceOption())
    Footprint(made_bytes=72, peak_bytes=48, by_type=Counter({'Relu': 72}))

    Raises:
        DTypeError: a number that stands for no element type.
    """
    found = Footprint()
    living: dict[str, int] = {}
    for net in nets:
        for op in net.op:
            option = merge(net.device_option, op.device_option)
            if _is_second_name(op):
                continue
            if op.type == FREE.type:
                for name in op.output:
                    living.pop(name, None)
            elif (option.device_type, option.device_id) == (device.device_type, device.device_id):
                for name in op.output:
                    if name not in living:
                        living[name] = _nbytes(name, shapes, types)
                        found.made_bytes += living[name]
                        found.by_type[op.type] += living[name]
                        found.peak_bytes = max(found.peak_bytes, sum(living.values()))
    return found


def _is_second_name(op: OperatorDef) -> bool:
    schema = SCHEMAS.get(op.type)
    return schema is not None and schema.second_name


def _nbytes(name: str, shapes: Mapping[str, Sequence[int]], types: Mapping[str, int]) -> int:
    if name not in shapes or name not in types:
        log.warning("neither shape nor type of blob %r is known: it counts nothing", name)
        return 0
    return math.prod(shapes[name]) * DataType.from_proto(types[name]).itemsize

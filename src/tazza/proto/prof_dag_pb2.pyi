from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BlobProfile(_message.Message):
    __slots__ = ["bytes_used", "name"]
    BYTES_USED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    bytes_used: TwoNumberStatsProto
    name: str
    def __init__(self, name: _Optional[str] = ..., bytes_used: _Optional[_Union[TwoNumberStatsProto, _Mapping]] = ...) -> None: ...

class OpProfile(_message.Message):
    __slots__ = ["exec_time_secs", "idx", "net_name", "type"]
    EXEC_TIME_SECS_FIELD_NUMBER: _ClassVar[int]
    IDX_FIELD_NUMBER: _ClassVar[int]
    NET_NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    exec_time_secs: float
    idx: str
    net_name: str
    type: str
    def __init__(self, idx: _Optional[str] = ..., net_name: _Optional[str] = ..., type: _Optional[str] = ..., exec_time_secs: _Optional[float] = ...) -> None: ...

class ProfDAGProto(_message.Message):
    __slots__ = ["execution_time", "extra_info", "mean", "name", "output_profile", "stddev"]
    EXECUTION_TIME_FIELD_NUMBER: _ClassVar[int]
    EXTRA_INFO_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PROFILE_FIELD_NUMBER: _ClassVar[int]
    STDDEV_FIELD_NUMBER: _ClassVar[int]
    execution_time: TwoNumberStatsProto
    extra_info: _containers.RepeatedScalarFieldContainer[str]
    mean: float
    name: str
    output_profile: _containers.RepeatedCompositeFieldContainer[BlobProfile]
    stddev: float
    def __init__(self, name: _Optional[str] = ..., mean: _Optional[float] = ..., stddev: _Optional[float] = ..., execution_time: _Optional[_Union[TwoNumberStatsProto, _Mapping]] = ..., output_profile: _Optional[_Iterable[_Union[BlobProfile, _Mapping]]] = ..., extra_info: _Optional[_Iterable[str]] = ...) -> None: ...

class ProfDAGProtos(_message.Message):
    __slots__ = ["net_name", "ops_stats", "stats"]
    NET_NAME_FIELD_NUMBER: _ClassVar[int]
    OPS_STATS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    net_name: str
    ops_stats: _containers.RepeatedCompositeFieldContainer[OpProfile]
    stats: _containers.RepeatedCompositeFieldContainer[ProfDAGProto]
    def __init__(self, stats: _Optional[_Iterable[_Union[ProfDAGProto, _Mapping]]] = ..., net_name: _Optional[str] = ..., ops_stats: _Optional[_Iterable[_Union[OpProfile, _Mapping]]] = ...) -> None: ...

class TwoNumberStatsProto(_message.Message):
    __slots__ = ["count", "mean", "stddev"]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    STDDEV_FIELD_NUMBER: _ClassVar[int]
    count: int
    mean: float
    stddev: float
    def __init__(self, mean: _Optional[float] = ..., stddev: _Optional[float] = ..., count: _Optional[int] = ...) -> None: ...

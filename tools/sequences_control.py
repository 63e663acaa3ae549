"""Sequences that `record_sequences` records: truth values and sums of threads, statistics, checks, stores, failures."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import caffe2
from tools.record_sequences import Step


def found() -> dict[str, list[Step]]:
    """Return the sequences by name."""
    return {
        "truth_values": truth_values(),
        "fetched_32": fetched("AtomicFetchAdd", "i"),
        "fetched_64": fetched("AtomicFetchAdd64", "q"),
        "statistics": statistics(),
        "checks": checks(),
        "accumulated": accumulated(),
        "freed": freed(),
        "failures": [Step("Fail", [], []), Step("ThrowException", [], [])],
        "packed_layers": packed_layers(),
        "onnx_loops": loops(),
        "timers": [
            Step("TimerBegin", [], ["t"], {"counter_name": "c"}),
            Step("TimerEnd", ["t"], []),
            Step("TimerEnd", ["t"], []),
            Step("TimerEnd", ["x"], [], {}, {"x": np.arange(3.0)}),
            Step("TimerBegin", [], ["x"]),
            Step("TimerEnd", ["x"], []),
        ],
    }


def truth_values() -> list[Step]:
    """A truth value that conditions set, of which the first element counts."""
    conditions = [[False], [False, True], [True, False], [False]]
    steps = [Step("CreateAtomicBool", [], ["b"]), Step("CheckAtomicBool", ["b"], ["v"])]
    for condition in conditions:
        steps.append(Step("ConditionalSetAtomicBool", ["b", "c"], [], {}, {"c": np.array(condition)}))
        steps.append(Step("CheckAtomicBool", ["b"], ["v"]))
    return [
        *steps,
        Step("CreateAtomicBool", [], ["b"]),
        Step("ConditionalSetAtomicBool", ["b", "c"], [], {}, {"c": np.array(True)}),
        Step("CheckAtomicBool", ["b"], ["v"]),
        Step("ConditionalSetAtomicBool", ["b", "c"], [], {}, {"c": np.array([1], "i")}),
        Step("CheckAtomicBool", ["c"], ["v"]),
    ]


def fetched(type: str, dtype: str) -> list[Step]:
    """Sums that overwrite a number, or go elsewhere; that wrap around; of lists, whose first element counts."""
    last = np.iinfo(dtype).max

    def step(a: Any, i: Any, output: str = "a") -> Step:
        return Step(type, ["m", "a", "i"], [output, "before"], {}, {"a": np.array(a, dtype), "i": np.array(i, dtype)})

    return [
        Step("CreateMutex", [], ["m"]),
        step([3], [4]),
        Step(type, ["m", "a", "i"], ["a", "before"]),
        step(3, -4, "b"),
        step([last], [2]),
        step([3, 5, 6], [4, 7]),
        Step(type, ["m", "a", "i"], ["a", "before"], {}, {"i": np.array([4], np.int16)}),
    ]


def statistics() -> list[Step]:
    """Statistics of a registry, one name at a time, since Caffe2 gives them in no order; and what is put elsewhere."""
    key = {"k": np.array([b"cups", b"cups"], object), "v": np.array([2, 40])}
    put = [
        Step(type, ["x"], [], {"stat_name": "s", **arguments}, {"x": np.array(x, dtype)})
        for type in ("AveragePut", "IncrementPut", "StdDevPut")
        for x, dtype, arguments in (
            ([1.5, 7], "f", {"magnitude_expand": 10}),
            ([], "d", {"default_value": 2.5}),
            ([np.nan], "f", {}),
            ([np.nan], "f", {"bound": 1}),
            ([3], "q", {}),
            ([True], "?", {}),
        )
    ]
    return [
        Step("StatRegistryCreate", [], ["r"]),
        Step("StatRegistryUpdate", ["k", "v", "r"], [], {}, key),
        Step("StatRegistryUpdate", ["k", "v", "r"], [], {}, {"v": np.array([1])}),
        Step("StatRegistryUpdate", ["k", "v", "r"], [], {}, {"v": np.array([1, 2], "i")}),
        *put,
    ]


def checks() -> list[Step]:
    """What passes, and what does not."""
    values: list[tuple[str, Any, str]] = [
        ("Assert", [1, -2], "i"),
        ("Assert", [[1, 1], [0, 1]], "q"),
        ("Assert", [True, False], "?"),
        ("Assert", [1.0], "f"),
        ("Assert", [], "?"),
        ("EnforceFinite", [1, -1e30], "f"),
        ("EnforceFinite", [1, np.nan], "d"),
        ("EnforceFinite", [np.inf], "f"),
        ("EnforceFinite", [1], "e"),
        ("EnforceFinite", [], "d"),
    ]
    infinite = np.array([[1, 2, 3], [4, -np.inf, 6]], "f")
    return [
        *(Step(type, ["x"], [], {}, {"x": np.array(x, dtype)}) for type, x, dtype in values),
        Step("NanCheck", ["y", "x"], ["z"], {}, {"y": np.arange(6, dtype="f").reshape(2, 3), "x": np.array([1], "e")}),
        Step("NanCheck", ["y"], ["y"]),
        Step("NanCheck", ["y", "text"], ["z"], {}, {"text": "a text", "y": np.array(1.5, "f")}),
        Step("NanCheck", ["y"], ["z"], {}, {"y": infinite}),
        Step("NanCheck", ["y"], ["z"], {}, {"y": np.arange(3.0)}),
    ]


def accumulated() -> list[Step]:
    """Sums over runs: they begin at what is fed, since a new one begins at whatever memory held."""
    x = np.arange(6, dtype="f")

    def step(feeds: dict[str, Any], **arguments: Any) -> Step:
        return Step("Accumulate", ["x"], ["y"], arguments, feeds)

    return [
        step({"x": x, "y": x + 1}),
        step({}, gamma=0.5),
        step({"x": x.reshape(2, 3)}, gamma=-2.0),
        step({"x": x[:0].reshape(0, 3)}),
        step({"x": np.arange(3.0)}),
    ]


def freed() -> list[Step]:
    """Blobs that are emptied, and names of blobs."""
    return [
        Step("Free", ["a", "b"], ["a", "b"], {}, {"a": np.arange(3), "b": "a text"}),
        Step("Free", ["a"], ["a"]),
        Step("Relu", ["a"], ["c"]),
        Step("GetAllBlobNames", [], ["names"]),
        Step("GetAllBlobNames", [], ["names"], {"include_shared": 0}, {"z": np.arange(2)}),
        Step("Copy", ["z"], ["a"]),
    ]


def packed_layers() -> list[Step]:
    """Layers whose weights are packed, as they are and transposed."""
    random = np.random.RandomState(4)
    x, w, b = (random.standard_normal(shape).astype("f") for shape in ((2, 3, 5), (4, 5), (4,)))
    return [
        Step("FbGemmPack", ["w"], ["p"], {}, {"w": w}),
        Step("FbFCPacked", ["x", "p", "b"], ["y"], {}, {"x": x[0].copy(), "b": b}),
        Step("FbGemmPackTranspose", ["w"], ["p"], {}, {"w": w.T.copy()}),
        Step("FbFCPacked", ["x", "p", "b"], ["y"], {"axis": 2}, {"x": x}),
        Step("FbFCPacked", ["x", "p", "b"], ["y"], {"axis": 2}, {"b": b[:3].copy()}),
        Step("FbFCPacked", ["x", "w", "b"], ["y"], {"axis": 2}, {"b": b}),
        Step("FbGemmPackTranspose", ["w"], ["p"], {}, {"w": x}),
        Step("FbFCPacked", ["x", "p", "b"], ["y"], {}, {"x": w[:, :2].copy(), "b": np.arange(15, dtype="f")}),
        Step("FbGemmPack", ["w"], ["w"]),
    ]


def loops() -> list[Step]:
    """Loops over sums of two rows: the last two, and all of them below each other, twice; with and without rounds."""
    core, _, proto = caffe2()
    body = proto.NetDef(external_input=["i", "c", "a", "b"], external_output=["n", "b", "s", "s", "d"])
    body.op.extend(core.CreateOperator(type, ["a", "b"], [name]) for type, name in (("Add", "s"), ("Sub", "d")))
    body.op.extend([core.CreateOperator("GivenTensorBoolFill", [], ["n"], shape=[1], values=[True])])
    rows = {name: np.arange(3, dtype="f").reshape(1, 3) + start for name, start in (("A", 1), ("B", -2))}
    steps: list[Step] = []
    for rounds, holds, said in (
        (5, True, {"has_trip_count": 1, "has_cond": 1}),
        (4, False, {"has_trip_count": 1, "disable_scopes": 1}),
        (4, False, {"has_trip_count": 1, "has_cond": 1, "save_scopes": 1}),
        (0, True, {"has_trip_count": 1}),
    ):
        feeds = {"M": np.array(rounds), "C": np.array([holds]), **rows}
        outputs = ["P", "Q", "S", "D"]
        steps.append(Step("ONNXWhile", ["M", "C", "A", "B"], outputs, {"body": body, **said}, feeds))
    wrong = {"M": np.array(3, "i")}
    return [*steps, Step("ONNXWhile", ["M", "C", "A", "B"], ["P", "Q", "S", "D"], {"body": body}, wrong)]


def stores() -> list[Step]:
    """A store in a folder."""
    words = {"n": np.array([b"one", b"text"], object)}
    return [
        Step("FileStoreHandlerCreate", [], ["h"], {"path": ".", "prefix": "p"}),
        Step("StoreSet", ["h", "x"], [], {"blob_name": "one"}, {"x": np.arange(6, dtype="f").reshape(2, 3)}),
        Step("StoreGet", ["h"], ["y"], {"blob_name": "one"}),
        Step("StoreSet", ["h", "text"], [], {}, {"text": "a text"}),
        Step("StoreGet", ["h"], ["text"]),
        Step("StoreSet", ["h", "n"], [], {"blob_name": "one/../one"}, words),
        Step("StoreWait", ["h", "n"], []),
        Step("StoreGet", ["h"], ["y"], {"blob_name": "one/../one"}),
        Step("StoreSet", ["h", "x"], [], {"blob_name": "text"}),
        Step("StoreGet", ["h"], ["y"], {"blob_name": "text"}),
        Step("StoreWait", ["h"], [], {"blob_names": ["text", "one"]}),
        Step("FileStoreHandlerCreate", [], ["other"], {"path": ".", "prefix": "q"}),
        Step("StoreSet", ["other", "n"], [], {"blob_name": "one"}),
        Step("StoreGet", ["h"], ["y"], {"blob_name": "one"}),
    ]


def gathered(rank: int, size: int, dtype: str) -> list[Step]:
    """What ranks gather; of a sum the part of a single rank: of several Caffe2 changes more than their parts."""
    gloo = {"engine": "GLOO"}
    store, world, a, b, all_of, parts = (f"{name}{rank}" for name in ("store", "world", "a", "b", "y", "parts"))
    values = np.arange(6).reshape(2, 3).astype(dtype) * np.dtype(dtype).type(rank + 1)
    more = {"size": size, "rank": rank, "interface": "lo", "timeout_ms": 20000}
    steps = [
        Step("FileStoreHandlerCreate", [], [store], {"path": ".", "prefix": "p"}),
        Step("CreateCommonWorld", [store], [world], {"name": "world", **more, **gloo}),
        Step("Allgather", [world, a], [all_of], {"name": "one", **gloo}, {a: values}),
        Step("Allgather", [world, a, b], [all_of], {"name": "two", **gloo}, {b: values + values.dtype.type(1)}),
        Step("Barrier", [world], [], {"name": "all", **gloo}),
    ]
    if dtype == "float32" and size == 1:
        part = {parts: np.array([6], "i")}
        steps[4:4] = [Step("ReduceScatter", [world, a, parts], [a, parts], {"name": "sum", **gloo}, part)]
    return steps

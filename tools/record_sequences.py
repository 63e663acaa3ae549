"""Record sequences of the genuine Caffe2 into `tests/data/golden/sequences/<name>.npz`: operators that keep state.

Needs what `record_golden.py` needs, and runs as it does:

    python3.8 -m tools.record_sequences [FOLDER]

A sequence is steps in one workspace, from an empty one on. A step feeds blobs, runs one operator, and notes what blobs
hold afterwards. Keys of a file: `stepNN/feed/NAME` what is fed, `stepNN/op` the serialized OperatorDef, `stepNN/NAME`
what the blob `NAME` holds behind it (text has dtype S; what is no tensor is the text that Caffe2 shows for it), and
`stepNN/fails` where the operator raises. Blobs whose content nobody can fetch are left out. Each sequence runs three
times and is refused unless all agree to the last bit.

Names that begin with `ranks` have a sequence for each rank, `rankR/stepNN/...`: they run at once, each in a thread of
its own, in one workspace; the name of each blob ends with the number of its rank.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tools.data_sequences import Step, data_sequences
from tools.record_golden import FOLDER, RUNS, as_array, as_bytes, caffe2


def main() -> None:
    """Record all sequences."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "sequences"
    folder.mkdir(exist_ok=True)
    for name, act in {**sequences(), **ranks()}.items():
        runs = [act() for _ in range(RUNS)]
        for again in runs[1:]:
            if {key: value.tobytes() for key, value in again.items()} != {k: v.tobytes() for k, v in runs[0].items()}:
                raise RuntimeError(f"{name}: two runs do not give the same")
        np.savez_compressed(str(folder / f"{name}.npz"), **runs[0])
        print(name)


def alone(steps: list[Step]) -> dict[str, Any]:
    """Run a sequence once in an empty workspace and return its parts."""
    _, workspace, _ = caffe2()
    workspace.ResetWorkspace()
    return run(steps)


def together(each: list[list[Step]]) -> dict[str, Any]:
    """Run sequences at once, in an empty workspace and an empty folder, and return the parts of all."""
    _, workspace, _ = caffe2()
    workspace.ResetWorkspace()
    parts: dict[str, Any] = {}

    def act(rank: int) -> None:
        parts.update({f"rank{rank}/{key}": value for key, value in run(each[rank]).items()})

    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        threads = [threading.Thread(target=act, args=(rank,)) for rank in range(len(each))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.chdir(before)
    return parts


def run(steps: list[Step]) -> dict[str, Any]:
    """Run a sequence once and return its parts."""
    core, workspace, _ = caffe2()
    parts: dict[str, Any] = {}
    for number, step in enumerate(steps):
        at = f"step{number:02}"
        for name, value in step.feeds.items():
            workspace.FeedBlob(name, value)
            parts[f"{at}/feed/{name}"] = as_array(value)
        definition = core.CreateOperator(step.type, step.inputs, step.outputs, **step.arguments)
        parts[f"{at}/op"] = as_bytes(definition)
        try:
            workspace.RunOperatorOnce(definition)
        except Exception:
            parts[f"{at}/fails"] = np.array(True)
            continue
        for name in dict.fromkeys([*step.inputs, *step.outputs]):
            try:
                parts[f"{at}/{name}"] = as_array(workspace.FetchBlob(name))
            except Exception:
                print(f"  {step.type}: {name!r} cannot be fetched")
    return parts


# -- the sequences -----------------------------------------------------------------------------------------------------


def sequences() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return all sequences of one thread by name."""
    from tools import sequences_control

    plain = {"counters": counters(), "queues": queues(), "records": records(), "maps": maps()}
    found = {**plain, **packed(), **data_sequences(), **sequences_control.found()}
    made = {name: partial(alone, steps) for name, steps in found.items()}
    return {**made, "stores": partial(together, [sequences_control.stores()])}


def ranks() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return the sequences of several ranks: sums without rounding, of several blobs, and what the root has."""
    from tools import sequences_control

    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for dtype in ("float32", "float64", "float16", "int32", "int64"):
        for size in (1, 2, 3):
            each = [_rank(rank, size, dtype) for rank in range(size)]
            found[f"ranks_{dtype}_{size}"] = partial(together, each)
            if dtype in ("float32", "int64") and (size > 1 or dtype == "float32"):
                each = [sequences_control.gathered(rank, size, dtype) for rank in range(size)]
                found[f"ranks_gather_{dtype}_{size}"] = partial(together, each)
    return found


def _rank(rank: int, size: int, dtype: str) -> list[Step]:
    gloo = {"engine": "GLOO"}
    store, world, other, a, b, c = (f"{name}{rank}" for name in ("store", "world", "other", "a", "b", "c"))
    values = np.arange(6).reshape(2, 3).astype(dtype) * np.dtype(dtype).type(rank + 1)
    more = {"size": size, "rank": rank, "interface": "lo", "timeout_ms": 20000}
    return [
        Step("FileStoreHandlerCreate", [], [store], {"path": ".", "prefix": "p"}),
        Step("CreateCommonWorld", [store], [world], {"name": "world", **more, **gloo}),
        Step("Allreduce", [world, a], [a], {"name": "one", **gloo}, {a: values}),
        Step("Allreduce", [world, a, b], [a, b], {"name": "two", **gloo}, {b: values + values.dtype.type(1)}),
        Step("Broadcast", [world, c], [c], {"name": "last", "root": size - 1, **gloo}, {c: values}),
        Step("Barrier", [world], [], {"name": "all", **gloo}),
        Step("CloneCommonWorld", [world], [other], {"name": "clone", **gloo}),
        Step("Broadcast", [other, a, b], [a, b], {"name": "first", **gloo}, {a: values, b: values}),
        Step("Barrier", [world], [], {"name": "end", **gloo}),
        Step("DestroyCommonWorld", [other], [other], gloo),
    ]


def counters() -> list[Step]:
    """Counters up, down, below 0, and set anew."""
    return [
        Step("CreateCounter", [], ["up"]),
        Step("CountUp", ["up"], ["before"]),
        Step("CountUp", ["up"], ["before"]),
        Step("RetrieveCount", ["up"], ["count"]),
        Step("CheckCounterDone", ["up"], ["done"]),
        Step("CreateCounter", [], ["down"], {"init_count": 2}),
        *(Step("CountDown", ["down"], ["done"]) for _ in range(4)),
        Step("RetrieveCount", ["down"], ["count"]),
        Step("CheckCounterDone", ["down"], ["done"]),
        Step("ResetCounter", ["down"], [], {"init_count": 7}),
        Step("RetrieveCount", ["down"], ["count"]),
        Step("ResetCounter", ["down"], ["before"], {"init_count": 3}),
        Step("ResetCounter", ["down"], ["before"]),
        Step("RetrieveCount", ["down"], ["count"]),
        Step("ResetCounter", ["down"], [], {"init_count": -1}),
        Step("CreateCounter", [], ["wrong"], {"init_count": -1}),
        Step("CountUp", ["x"], ["before"], {}, {"x": np.arange(3.0)}),
        Step("CreateCounter", [], ["x"]),
        Step("CountUp", ["x"], ["before"]),
    ]


def maps() -> list[Step]:
    """Maps of each pair of types, of one key: the order of several is that of a hash."""
    found = [Step("CreateMap", [], ["m"]), Step("MapToKeyValue", ["m"], ["k", "v"])]
    for key in ("i", "q"):
        for value in ("i", "q"):
            fed = {"k": np.array([[7, 7], [7, 7]], key), "v": np.array([2, 5, 3, 2], value)}
            found += [Step("KeyValueToMap", ["k", "v"], ["m"], {}, fed), Step("MapToKeyValue", ["m"], ["k", "v"])]
    longs, one = {"key_dtype": 10, "value_dtype": 2}, {"k": np.array([1], "q")}
    return [
        *found,
        Step("CreateMap", [], ["m"], longs),
        Step("MapToKeyValue", ["m"], ["k", "v"]),
        Step("KeyValueToMap", ["k", "v"], ["m"], {}, {**one, "v": np.array([1, 2])}),
        Step("KeyValueToMap", ["k", "v"], ["m"], {}, {**one, "v": np.array([1.5], "f")}),
        Step("KeyValueToMap", ["k", "v"], ["m"], {}, {"k": np.array([1.5], "f"), "v": np.array([1])}),
        Step("MapToKeyValue", ["k"], ["w", "v"], {}, one),
        Step("CreateMap", [], ["n"], {"value_dtype": 1}),
        Step("CreateMap", [], ["n"], {"key_dtype": 5}),
        Step("CreateMap", [], ["k"]),
        Step("MapToKeyValue", ["k"], ["x", "v"]),
    ]


def queues() -> list[Step]:
    """Queues that are filled, emptied and closed; every step can go on at once."""
    one = {"a": np.array([1, 2], np.float32), "b": np.array([3], np.int32)}
    two = {"a": np.array([5], np.float32), "b": np.array([[6, 7]], np.int32)}
    return [
        Step("CreateBlobsQueue", [], ["q"], {"num_blobs": 2, "capacity": 2}),
        Step("EnqueueBlobs", ["q", "a", "b"], ["a", "b"], {}, one),
        Step("EnqueueBlobs", ["q", "a"], ["a"], {}, one),
        Step("SafeEnqueueBlobs", ["q", "a", "b"], ["a", "b", "closed"], {}, two),
        Step("DequeueBlobs", ["q"], ["x", "y"]),
        Step("DequeueBlobs", ["q"], ["x"]),
        Step("SafeDequeueBlobs", ["q"], ["x", "y", "closed"]),
        Step("DequeueBlobs", ["q"], ["x", "y"], {"timeout_secs": 0.05}),
        Step("EnqueueBlobs", ["q", "a", "b"], ["a", "b"], {}, two),
        Step("CloseBlobsQueue", ["q"], []),
        Step("SafeEnqueueBlobs", ["q", "a", "b"], ["a", "b", "closed"], {}, one),
        Step("SafeEnqueueBlobs", ["q", "a", "b"], ["a", "b", "closed"], {}, two),
        Step("EnqueueBlobs", ["q", "a", "b"], ["a", "b"], {}, two),
        *(Step("SafeDequeueBlobs", ["q"], ["x", "y", "closed"]) for _ in range(3)),
        Step("DequeueBlobs", ["q"], ["x", "y"]),
        Step("CloseBlobsQueue", ["q"], []),
        Step("CreateBlobsQueue", [], ["n"], {"num_blobs": 2, "capacity": 3, "field_names": ["one", "two"]}),
        Step("CreateBlobsQueue", [], ["m"], {"num_blobs": 2, "capacity": 3, "field_names": ["one"]}),
        Step("EnqueueBlobs", ["n", "t", "u"], ["t", "u"], {}, {"t": "text", "u": np.array([b"a", b"bc"], object)}),
        Step("DequeueBlobs", ["n"], ["x", "y"]),
        Step("CreateCounter", [], ["c"]),
        Step("EnqueueBlobs", ["n", "c", "u"], ["c", "u"], {}, {"u": np.zeros((0, 3))}),
        Step("DequeueBlobs", ["n"], ["x", "y"]),
    ]


def records() -> list[Step]:
    """Several records of a queue at once."""
    values = [np.arange(2 * n, dtype=np.float32).reshape(n, 2) for n in (1, 2, 0, 1, 3)]
    put = [Step("EnqueueBlobs", ["q", "a"], ["a"], {}, {"a": value}) for value in values]
    return [
        Step("CreateBlobsQueue", [], ["q"], {"capacity": 5}),
        *put,
        Step("SafeDequeueBlobs", ["q"], ["x", "closed"], {"num_records": 2}),
        Step("SafeDequeueBlobs", ["q"], ["x", "closed"], {"num_records": 2}),
        Step("CloseBlobsQueue", ["q"], []),
        Step("SafeDequeueBlobs", ["q"], ["x", "closed"], {"num_records": 2}),
        Step("SafeDequeueBlobs", ["q"], ["x", "closed"], {"num_records": 2}),
    ]


def packed() -> dict[str, list[Step]]:
    """Records of fields, flat and of lists, packed and taken apart."""
    numbers = np.arange(6, dtype=np.float32)
    lists = {"n": np.array([2, 0, 1], np.int32), "v": np.arange(3), "w": numbers[:3]}
    deep = {"n": np.array([2, 1], np.int32), "m": np.array([1, 2, 0], np.int32), "v": np.arange(3)}
    flat = {"x": numbers.reshape(3, 2), "y": np.array([b"a", b"", b"ccc"], object)}
    empty = {"x": np.zeros((0, 2), np.float32), "y": np.zeros(0, np.int64)}
    long = {"x": numbers[:2], "y": numbers}
    found: dict[str, list[Step]] = {}
    for name, feeds, fields, pack in (
        ("packed_flat", flat, ["x", "y"], {}),
        ("packed_single", flat, ["x", "y"], {"pack_to_single_shared_ptr": 1}),
        ("packed_lists", lists, ["i:lengths", "i:values", "label"], {}),
        ("packed_deep", deep, ["i:lengths", "i:values:lengths", "i:values:values"], {}),
        ("packed_long", long, ["x", "y"], {}),
        ("packed_uneven", {"x": numbers, "y": numbers[:2]}, ["x", "y"], {}),
        ("packed_empty", empty, ["x", "y"], {}),
    ):
        names, outputs = list(feeds), [f"{name}_" for name in feeds]
        found[name] = [
            Step("PackRecords", names, ["packed"], {"fields": fields, **pack}, feeds),
            Step("UnPackRecords", ["packed", *names], outputs, {"fields": fields}),
            Step("UnPackRecords", ["packed"], outputs, {"fields": fields}),
            Step("UnPackRecords", ["packed"], outputs[:1], {"fields": fields}),
        ]
    short = {"n": np.array([2, 1], np.int32), "v": np.arange(2)}
    fields = {"fields": ["i:lengths", "i:values"]}
    found["packed_short"] = [Step("PackRecords", ["n", "v"], ["packed"], fields, short)]
    return found


if __name__ == "__main__":
    main()

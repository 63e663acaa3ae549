"""Sequences that `record_sequences` records: indices of keys, data sets and their cursors, what is collected."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tools.record_golden import caffe2


class Step(NamedTuple):
    """One step: operator type, its inputs and outputs by name, its arguments, and what is fed before."""

    type: str
    inputs: list[str]
    outputs: list[str]
    arguments: Mapping[str, Any] = MappingProxyType({})
    feeds: Mapping[str, Any] = MappingProxyType({})


def data_sequences() -> dict[str, list[Step]]:
    """Return all of them by name."""
    alone = {
        "vectors": vectors(),
        "reservoirs": reservoirs(),
        "rebatching": rebatching(),
        "weighted_queues": weighted_queues(),
        "queue_reader": queue_reader(),
    }
    return {
        **indices(),
        **cursors(),
        **data_sets(),
        **windows(),
        **kept_packed(),
        **alone,
        "blob_values": blob_values(),
    }


def indices() -> dict[str, list[Step]]:
    """Indices that learn, are full, frozen, loaded and stored."""
    found: dict[str, list[Step]] = {}
    for kind, keys in (
        ("Int", np.array([[4, -1, 4], [7, 9, 7]], np.int32)),
        ("Long", np.array([[2**40, -1, 3], [3, 5, 8]], np.int64)),
        ("String", np.array([[b"a", b"", b"a"], [b"ccc", b"d", b"e"]], object)),
    ):
        few, more = keys[0], keys[1]
        found[f"index_{kind.lower()}"] = [
            Step(f"{kind}IndexCreate", [], ["h"], {"max_elements": 3 + (kind == "Long")}),
            Step("IndexSize", ["h"], ["n"]),
            Step("IndexGet", ["h", "k"], ["i"], {}, {"k": few}),
            Step("IndexGet", ["h", "k"], ["i"], {}, {"k": keys}),
            Step("IndexSize", ["h"], ["n"]),
            Step("IndexStore", ["h"], ["s"]),
            Step("IndexFreeze", ["h"], ["h"]),
            Step("IndexGet", ["h", "k"], ["i"], {}, {"k": keys[::-1].copy()}),
            Step("IndexLoad", ["h", "s"], ["h"], {}, {"s": keys.ravel()[1:].copy() if kind == "Long" else more}),
            Step("IndexLoad", ["h", "s"], ["h"], {"skip_first_entry": 1}, {"s": np.unique(keys)}),
            Step("IndexSize", ["h"], ["n"]),
            Step("IndexGet", ["h", "k"], ["i"], {}, {"k": keys[:, :1].copy()}),
            Step("IndexStore", ["h"], ["s"]),
            Step("IndexLoad", ["h", "s"], ["h"], {}, {"s": few[:0]}),
            Step("IndexLoad", ["h", "s"], ["h"], {"skip_first_entry": 1}),
            Step("IndexStore", ["h"], ["s"]),
        ]
    return found


TREE: dict[str, Any] = {
    "a": np.array([3, 4, 5, 1], np.int32),
    "b:lengths": np.array([2, 0, 1, 1], np.int32),
    "b:values:lengths": np.array([1, 3, 2, 0], np.int32),
    "b:values:values": np.arange(6.0, dtype=np.float32),
    "c:lengths": np.array([1, 2, 0, 2], np.int32),
    "c:c1": np.array([b"x", b"yy", b"z", b"", b"w"], object),
    "c:c2:lengths": np.array([2, 0, 1, 0, 3], np.int32),
    "c:c2:values": np.arange(12).reshape(6, 2),
}
"""Four records: a number, lists of lists, and lists of pairs of a text and a list."""


def of_tree(columns: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """Return the argument for the fields of columns, the names of their blobs, and what is fed."""
    names = [f"x{n}" for n in range(len(columns))]
    return {"fields": list(columns)}, names, dict(zip(names, columns.values()))  # noqa: B905 - Python 3.8


def read(out: list[str], names: list[str], **arguments: Any) -> list[Step]:
    """Read a batch in order, and ask where the cursor stands."""
    return [Step("ReadNextBatch", ["c", *names], out, arguments), Step("GetCursorOffset", ["c"], ["o"])]


def pick(out: list[str], names: list[str], **arguments: Any) -> list[Step]:
    """Read a batch in another order, and ask where the cursor stands."""
    return [Step("ReadRandomBatch", ["c", "i", "m", *names], out, arguments), Step("GetCursorOffset", ["c"], ["o"])]


AGAIN = Step("ResetCursor", ["c"], [])
BY_FIRST: dict[str, Any] = {"sort_by_field_idx": 0}


def cursors() -> dict[str, list[Step]]:
    """Cursors that read in order, at random, both ways, and beyond the end."""
    fields, names, feeds = of_tree(TREE)
    out = [f"y{n}" for n in range(len(names))]
    both = out, names
    new = Step("CreateTreeCursor", [], ["c"], fields, feeds)
    count = Step("ComputeOffset", ["c", *names], ["m"])
    sort = Step("SortAndShuffle", ["c", *names], ["i"], {**BY_FIRST, "batch_size": 2})
    whole: dict[str, Any] = {"batch_size": 3, "enforce_batch_size": 1}
    in_order = [new, Step("GetCursorOffset", ["c"], ["o"]), *read(*both) * 2, *read(*both, batch_size=3), *read(*both)]
    in_order += [AGAIN, *read(*both, batch_size=0), *read(*both, **{**whole, "batch_size": 2}) * 3]
    at_random = [new, count, sort, *pick(*both) * 5, AGAIN, *pick(*both, batch_size=3, loop_over=1) * 3]
    at_random += [AGAIN, *pick(*both, loop_over=1, **whole) * 2, AGAIN, *pick(*both, **whole) * 2]
    mixed = [new, *read(*both), count, *read(*both, batch_size=2), *pick(*both), *read(*both), count, AGAIN]
    return {
        "cursor_in_order": [*in_order, AGAIN, *read(*both, batch_size=9)],
        "cursor_at_random": at_random,
        "cursor_both_ways": [*mixed, *read(*both), sort, *pick(*both, batch_size=2)],
        "cursor_wrong": wrong(),
        "cursor_shuffled": shuffled(),
        **odd_trees(),
    }


def wrong() -> list[Step]:
    """Fields that do not fit."""
    lists = ["c", "l", "v"]
    return [
        Step("CreateTreeCursor", [], ["c"], {"fields": ["a:values", "a:lengths"]}),
        Step("CreateTreeCursor", [], ["c"], {"fields": ["a:lengths", "a:values"]}),
        Step("ReadNextBatch", lists, ["x", "y"], {}, {"l": np.array([1, 2], "i"), "v": np.arange(2)}),
        Step("ReadNextBatch", lists, ["x", "y"]),
        Step("ComputeOffset", lists, ["m"]),
        Step("ReadNextBatch", lists, ["x", "y"], {}, {"l": np.array([1, 2])}),
        Step("SortAndShuffle", lists, ["i"], {}, {"l": np.array([1, 2], "i")}),
        Step("SortAndShuffle", lists, ["i"], {"sort_by_field_idx": 2}),
        Step("SortAndShuffle", lists, ["i"], {**BY_FIRST, "batch_size": 0}),
    ]


def shuffled() -> list[Step]:
    """Records in another order: parts and batches that fill up, and that do not."""
    found = [Step("CreateTreeCursor", [], ["c"], {"fields": ["x"]})]
    for size, batch, parts in ((24, 5, 1), (24, 2, 3), (100, 7, 3), (21, 2, 10), (13, 1, 4), (0, 2, 2), (1, 1, 1)):
        order = {"sort_by_field_idx": -1, "batch_size": batch, "shuffle_size": parts}
        found.append(Step("SortAndShuffle", ["c", "x"], ["i"], order, {"x": np.zeros(size, "i")}))
    return found


def odd_trees() -> dict[str, list[Step]]:
    """Fields with names that say little, or with more rows than others."""
    found: dict[str, list[Step]] = {}
    some = np.array([1, 2], "i")
    for name, columns in {
        "unlike": {"a": np.arange(3), "b": np.arange(4).reshape(2, 2)},
        "prefix": {"a:lengths": some, "b:a:values": np.arange(2), "a": np.arange(3)},
        "deep": {
            "a:lengths": some,
            "a:b:c:lengths": np.array([2, 0, 1], "i"),
            "a:b:c:d": np.arange(3),
            "a:b:x": np.arange(3),
        },
        "bare": {"lengths": some, "values": np.arange(3), ":x": np.arange(2)},
        "flat": {"a:lengths": some[:, None].copy(), "a:values": np.arange(4)},
        "empty": {"a:lengths": some[:0], "a:x": np.zeros((0, 3), "f")},
    }.items():
        fields, names, feeds = of_tree(columns)
        out = [f"y{n}" for n in range(len(names))]
        found[f"cursor_of_{name}"] = [
            Step("CreateTreeCursor", [], ["c"], fields, feeds),
            *(2 * read(out, names)),
            Step("CheckDatasetConsistency", names, [], fields),
            AGAIN,
            Step("ComputeOffset", ["c", *names], ["m"]),
            Step("TrimDataset", names, names, {**fields, "multiple_of": 2}),
        ]
    return found


def data_sets() -> dict[str, list[Step]]:
    """Data sets that are checked, cut and made longer."""
    fields, names, feeds = of_tree(TREE)
    cut = [Step("TrimDataset", names, names, {**fields, "multiple_of": n}, feeds) for n in (4, 3, 5)]
    numbers = np.arange(6, dtype=np.float32)
    rows = [
        (numbers[:2], numbers[2:]),
        (numbers.reshape(3, 2), numbers[:2].reshape(1, 2)),
        (numbers[:0], numbers.reshape(3, 2)),
        (np.zeros((0, 5)), np.arange(3)),
        (numbers.reshape(2, 3), numbers[:2]),
        (numbers.reshape(2, 3), numbers.reshape(3, 2)),
        (numbers.reshape(2, 3), np.zeros((0, 3), np.float32)),
        (np.arange(2), np.arange(2, dtype=np.int32)),
        (np.array(1.0), np.array(2.0)),
        (np.array([b"a"], object), np.array([b"bb", b""], object)),
        (np.zeros((2, 0)), np.zeros((1, 0))),
    ]
    two = ["m", "a", "b", "c", "d"]
    short = {"b": numbers.reshape(2, 3)[:1].copy(), "d": numbers.reshape(2, 3)}
    return {
        "data_set_whole": [Step("CheckDatasetConsistency", names, [], fields, feeds), *cut],
        "data_set_longer": [Step("Append", ["a", "b"], ["a"], {}, {"a": a, "b": b}) for a, b in rows],
        "data_set_atomic": [
            Step("CreateMutex", [], ["m"]),
            Step("AtomicAppend", two, ["a", "b"], {}, {"a": np.arange(1), "c": np.arange(2), **short}),
            Step("AtomicAppend", two, ["a", "b"]),
            Step("AtomicAppend", two, ["a", "b"], {}, {"d": numbers.reshape(3, 2)}),
        ],
    }


def vectors() -> list[Step]:
    """Rows of tensors, each operator a new one that takes the first place."""
    texts = np.array([b"a", b""], object)
    return [
        Step("CreateTensorVector", [], ["v"]),
        Step("TensorVectorSize", ["v"], ["n"]),
        Step("ConcatTensorVector", ["v"], ["o"]),
        Step("CreateTensorVector", [], ["w"]),
        Step(
            "CollectTensor", ["v", "w", "x", "y"], ["v", "w"], {"num_to_collect": 2}, {"x": np.ones((2, 3)), "y": texts}
        ),
        Step("ConcatTensorVector", ["v"], ["o"]),
        Step("ConcatTensorVector", ["w"], ["o"]),
        Step("TensorVectorSize", ["w"], ["n"]),
        Step("CollectTensor", ["v", "x"], ["v"], {"num_to_collect": 2}, {"x": np.arange(4)}),
        Step("ConcatTensorVector", ["v"], ["o"]),
        Step("CollectTensor", ["v", "x"], ["v"], {"num_to_collect": 0}),
    ]


def rebatching() -> list[Step]:
    """Batches that go into a queue and come out otherwise."""
    two: dict[str, Any] = {"a": np.arange(6, dtype=np.float32).reshape(3, 2), "b": np.arange(3)}
    text: dict[str, Any] = {"a": np.array([b"a", b"bb"], object), "b": np.zeros((2, 0, 3))}
    put, batch = ["q", "a", "b"], {"enqueue_batch": 1}
    return [
        Step("CreateRebatchingQueue", [], ["q"], {"capacity": 10, "num_blobs": 2}),
        Step("EnqueueRebatchingQueue", put, [], batch, two),
        Step("DequeueRebatchingQueue", ["q"], ["x", "y"]),
        Step("DequeueRebatchingQueue", ["q"], ["x", "y"], {"num_elements": 2}),
        *[Step("EnqueueRebatchingQueue", put, [])] * 2,
        Step("DequeueRebatchingQueue", ["q"], ["x", "y"], {"num_elements": 2}),
        Step("EnqueueRebatchingQueue", put, [], batch, text),
        Step("DequeueRebatchingQueue", ["q"], ["x", "y"], {"num_elements": 2}),
        Step("EnqueueRebatchingQueue", put, [], {}, {"a": np.array(2.5), "b": np.array(3)}),
        Step("EnqueueRebatchingQueue", put, [], batch),
        Step("EnqueueRebatchingQueue", put[:2], []),
        Step("CloseRebatchingQueue", ["q"], []),
        Step("EnqueueRebatchingQueue", put, []),
        Step("DequeueRebatchingQueue", ["q"], ["x", "y"], {"num_elements": 5}),
        Step("DequeueRebatchingQueue", ["q"], ["x", "y"]),
    ]


def weighted_queues() -> list[Step]:
    """Records of one of two queues, the other of which has weight 0."""
    first, second = {"weights": [1.0, 0.0]}, {"weights": [0.0, 1.0]}
    records = [
        step
        for name in ("p", "q")
        for step in (
            Step("CreateBlobsQueue", [], [name], {"num_blobs": 2}),
            Step(
                "EnqueueBlobs",
                [name, "a", "b"],
                ["a", "b"],
                {},
                {"a": np.arange(3), "b": np.array([name.encode()], object)},
            ),
        )
    ]
    out = ["x", "y", "s"]
    return [
        *records,
        Step("WeightedSampleDequeueBlobs", ["p", "q"], out, first),
        Step("WeightedSampleDequeueBlobs", ["p", "q"], out, {**second, "table_idx_blob": 1}),
        Step("CloseBlobsQueue", ["p"], []),
        Step("WeightedSampleDequeueBlobs", ["p", "q"], out, first),
        Step("WeightedSampleDequeueBlobs", ["p", "q"], out[1:], first),
        Step("WeightedSampleDequeueBlobs", ["p", "q"], out, {"weights": [1.0]}),
    ]


def blob_values() -> list[Step]:
    """Blobs that are handed on together, and made of bytes."""
    some: dict[str, Any] = {"a": np.arange(6).reshape(2, 3), "t": np.array([b"a"], object)}
    return [
        Step("DataCouple", ["a", "t"], ["a", "t"], {}, some),
        Step("CreateCounter", [], ["c"], {"init_count": 3}),
        Step("DataCouple", ["c", "a"], ["c", "a"]),
        Step("FeedBlob", [], ["s"], {"value": "text"}),
        Step("FeedBlob", [], ["a"], {"value": "other"}),
        Step("DataCouple", ["s"], ["s"]),
    ]


def windows() -> dict[str, list[Step]]:
    """The last rows of batches: few, as many as are kept, more, and none."""
    numbers, place = np.arange(60, dtype=np.float32), {"next": np.array(0, np.int32)}
    ring, seen = ["ring", "next", "x"], ["ring", "next", "x", "m", "n"]
    five: dict[str, Any] = {"num_to_collect": 5}
    sizes = (3, 3, 1, 13, 5, 0, 2, 5, 6)
    plain = [Step("LastNWindowCollector", ring, ring[:2], five, {"x": numbers[n : n + n]}) for n in sizes]
    rows = [numbers[:6].reshape(2, 3), numbers[6:18].reshape(4, 3), numbers[:4].reshape(2, 2)]
    counted = [
        Step("LastNWindowCollector", seen, ["ring", "next", "n"], {"num_to_collect": 3}, {"x": some}) for some in rows
    ]
    start = Step("FeedBlob", [], ["none"], {"value": ""}, {**place, "ring": numbers[:0]})
    empty: dict[str, Any] = {**place, "ring": numbers[:0].reshape(0, 3), "n": np.array([0])}
    return {
        "window_plain": [start, *plain],
        "window_counted": [Step("CreateMutex", [], ["m"], {}, empty), *counted],
    }


def reservoirs() -> list[Step]:
    """Samples that are not full yet, with and without objects."""
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    empty: dict[str, Any] = {"r": rows[:0], "n": np.array([0]), "o": np.zeros(0, np.int64)}
    plain, five = ["r", "n", "x", "m"], {"num_to_collect": 5}
    some: dict[str, Any] = {"x": rows, "i": np.array([7, 9, 7, 8])}
    more: dict[str, Any] = {"x": rows[:2], "i": np.array([9, 5])}
    whole = Step("ReservoirSampling", [*plain, "i", "p", "o"], ["r", "n", "p", "o"], five)
    return [
        Step("CreateMutex", [], ["m"], {}, empty),
        Step("ReservoirSampling", plain, ["r", "n"], five, {"x": rows}),
        Step("ReservoirSampling", plain, ["r", "n"], five, {"x": rows[:1]}),
        Step("ReservoirSampling", plain, ["r", "n"], five, {"x": rows[:, :2].copy()}),
        Step("CreateMap", [], ["p"], {"key_dtype": 10, "value_dtype": 2}, empty),
        whole._replace(feeds=some),
        whole._replace(feeds=more),
        whole._replace(feeds={"i": np.array([9])}),
    ]


def kept_packed() -> dict[str, list[Step]]:
    """Packed records that are sampled, and the last of them: each time what is kept is taken apart again.

    Beside the sample is a queue, which nobody stores: a sample of packed records begins anew where it was stored.
    """
    empty: dict[str, Any] = {"k": np.zeros(0, np.float32)}
    names = {"fields": ["i:lengths", "i:values", "t"]}
    sample = Step("ReservoirSampling", ["k", "n", "p", "m"], ["k", "n"], {"num_to_collect": 9})
    last = Step("LastNWindowCollector", ["k", "next", "p"], ["k", "next"], {"num_to_collect": 4})
    found = {
        "reservoir_packed": [
            Step("CreateMutex", [], ["m"], {}, {**empty, "n": np.array([0])}),
            Step("CreateBlobsQueue", [], ["q"], {"capacity": 1}),
        ],
        "window_packed": [Step("CreateMutex", [], ["m"], {}, {**empty, "next": np.array(0, np.int32)})],
    }
    first = 0
    for lengths in ([2, 0, 1], [], [3, 1], [1]):
        feeds: dict[str, Any] = {
            "l": np.array(lengths, np.int32),
            "v": np.arange(first, first + sum(lengths), dtype=np.float32),
            "t": np.array([b"t" * n for n in lengths] + [b"beyond"], object)[: len(lengths)],
        }
        first += 10
        for name, keep in (("reservoir_packed", sample), ("window_packed", last)):
            found[name] += [
                Step("PackRecords", ["l", "v", "t"], ["p"], names, feeds),
                keep,
                Step("UnPackRecords", ["k"], ["kl", "kv", "kt"], names),
            ]
    return found


def queue_reader() -> list[Step]:
    """A batch of the records that lie in a queue, as tensors of text: where there are no more, Caffe2 repeats the last.

    A record ends in its label, which is not 0: what is stored here ends before the first such byte.
    """
    into = Step("EnqueueBlobs", ["q", "x"], ["x"])
    feeds = [np.array([_record(number), b"not looked at"], object) for number in (3, 1, 2)]
    return [
        Step("CreateBlobsQueue", [], ["q"], {"capacity": 4}),
        Step("CreateBlobsQueueDB", ["q"], ["r"], {"timeout_secs": 0.05}),
        *(into._replace(feeds={"x": each}) for each in feeds),
        Step("TensorProtosDBInput", ["r"], ["data", "label"], {"batch_size": 3}),
        Step("CloseBlobsQueue", ["q"], []),
    ]


def _record(number: int) -> bytes:
    """Return two tensors: two float32, and a label."""
    _, _, proto = caffe2()
    record = proto.TensorProtos()
    record.protos.add(dims=[2], data_type=1, float_data=[number / 2, -number])
    record.protos.add(data_type=2, int32_data=[number])
    return bytes(record.SerializeToString())

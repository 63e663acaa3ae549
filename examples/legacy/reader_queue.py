"""A plan of two threads: one reads a database into a queue, one learns from the queue until it is empty and closed.

    python reader_queue.py FOLDER

FOLDER gets the database.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, utils, workspace

BATCH = 8


def write_database(path: str, records: int) -> None:
    """Write points in the plane, and on which side of a line they lie."""
    random = np.random.RandomState(11)
    points = random.uniform(-1.0, 1.0, size=(records, 2)).astype(np.float32)
    sides = (points.dot(np.array([1.0, -2.0], dtype=np.float32)) > 0.25).astype(np.int32)
    db = workspace.C.create_db("minidb", path, workspace.C.Mode.write)
    transaction = db.new_transaction()
    for number in range(records):
        record = caffe2_pb2.TensorProtos()
        record.protos.extend(
            [utils.NumpyArrayToCaffe2Tensor(points[number]), utils.NumpyArrayToCaffe2Tensor(sides[number : number + 1])]
        )
        transaction.put(f"{number:04}", record.SerializeToString())
    del transaction
    del db


def reading(path: str, queue: Any, batches: int) -> Any:
    """Return the step that reads: so many batches into the queue, which it closes behind the last."""
    read_net = core.Net("read")
    reader = core.BlobReference("reader")
    point, side = read_net.TensorProtosDBInput([reader], ["read_point", "read_side"], batch_size=BATCH)
    flat = read_net.FlattenToVec(side, "read_flat")
    read_net.EnqueueBlobs([queue, point, flat], [point, flat])
    close_net = core.Net("close")
    close_net.CloseBlobsQueue([queue], 0)
    return core.execution_step(
        "reader", [core.execution_step("read", read_net, num_iter=batches), core.execution_step("close", close_net)]
    )


def learning(queue: Any, seen: list[Any]) -> Any:
    """Return the step that learns: from batch after batch until the queue says that there is none."""
    take_net = core.Net("take")
    point, side, stop = take_net.SafeDequeueBlobs([queue], ["point", "side", "stop"], num_records=1)
    learn_net = core.Net("learn")
    scores = learn_net.FC([point, "W", "b"], "scores")
    _, loss = learn_net.SoftmaxWithLoss([scores, side], ["probability", "loss"])
    gradients = learn_net.AddGradientOperators([loss])
    for name in ("W", "b"):
        learn_net.WeightedSum([name, "one", gradients[name], "rate"], name)

    def note(inputs: Any, outputs: Any) -> None:
        seen.append(np.array(inputs[0].data))

    learn_net.Python(note)([loss], [])
    return core.execution_step("learner", [take_net, learn_net], should_stop_blob=stop)


def main(folder: str, records: int = 40, batches: int = 15) -> dict[str, Any]:
    """Write, read and learn; return all losses, and what it found."""
    workspace.ResetWorkspace()
    path = os.path.join(folder, "points.minidb")
    write_database(path, records)

    init_net = core.Net("init")
    init_net.CreateDB([], ["reader"], db=path, db_type="minidb")
    queue = init_net.CreateBlobsQueue([], ["queue"], capacity=3, num_blobs=2)
    init_net.GivenTensorFill([], "W", shape=[2, 2], values=[0.1, -0.2, 0.3, 0.4])
    init_net.ConstantFill([], "b", shape=[2], value=0.0)
    init_net.ConstantFill([], "one", shape=[1], value=1.0)
    init_net.ConstantFill([], "rate", shape=[1], value=-0.5)

    seen: list[Any] = []
    plan = core.Plan("reader_queue")
    plan.AddStep(core.execution_step("init", init_net))
    plan.AddStep(
        core.execution_step("both", [reading(path, queue, batches), learning(queue, seen)], concurrent_substeps=True)
    )
    workspace.RunPlan(plan)
    found = {name: workspace.FetchBlob(name) for name in ("W", "b", "point", "side")}
    found["losses"] = seen
    print("learned from", len(seen), "batches, loss", seen[-1])
    return found


if __name__ == "__main__":
    main(sys.argv[1])

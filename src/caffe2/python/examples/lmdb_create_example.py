"""Write random images with labels to a database of LMDB, and read them again.

python -m caffe2.python.examples.lmdb_create_example --output_file images.lmdb
"""

from __future__ import annotations

import argparse

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import model_helper, utils, workspace
from tazza.db import Mode, open_db

__all__ = ["argparse", "caffe2_pb2", "create_db", "main", "model_helper", "np", "read_db_with_caffe2", "workspace"]

RECORDS = 128
SHAPE = (3, 64, 32)
BATCH = 32
CLOSE = 0.1
"""How far the two sums may be from each other: they are added up in other orders."""


def create_db(output_file: str) -> float:
    """Write 128 records of an image and its label; returns the sum over all of what they hold, times their labels.

    Raises:
        DBError: there is something else at the path.
    """
    print(">>> Write database...")
    checksum = 0.0
    with open_db("lmdb", output_file, Mode.NEW) as db, db.transaction() as transaction:
        for at in range(RECORDS):
            image, label = np.random.rand(*SHAPE), at % 10
            record = caffe2_pb2.TensorProtos()
            record.protos.append(utils.NumpyArrayToCaffe2Tensor(image.astype(np.float32)))
            record.protos.append(utils.NumpyArrayToCaffe2Tensor(np.array(label, np.int32)))
            transaction.put(f"{at}", record.SerializeToString())
            checksum += float(image.sum()) * label
            if at % 16 == 0:
                print(f"Inserted {at} rows")
    print(f"Checksum/write: {int(checksum)}")
    return checksum


def read_db_with_caffe2(db_file: str, expected_checksum: float) -> None:
    """Read all records by an operator, and compare their sum.

    Raises:
        AssertionError: the sum is another.
    """
    print(">>> Read database...")
    model = model_helper.ModelHelper(name="lmdbtest")
    data, label = model.TensorProtosDBInput([], ["data", "label"], batch_size=BATCH, db=db_file, db_type="lmdb")
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    checksum = 0.0
    for _ in range(RECORDS // BATCH):
        workspace.RunNet(model.net.Proto().name)
        images, labels = workspace.FetchBlob(data), workspace.FetchBlob(label)
        checksum += float(np.sum(images, axis=(1, 2, 3), dtype=np.float64) @ labels)
    print(f"Checksum/read: {int(checksum)}")
    assert abs(expected_checksum - checksum) < CLOSE, "what was read is not what was written"


def main() -> None:
    """Write and read a database of a name."""
    parser = argparse.ArgumentParser(description="Example LMDB creation")
    parser.add_argument("--output_file", type=str, required=True, help="where the database goes")
    given = parser.parse_args()
    read_db_with_caffe2(given.output_file, create_db(given.output_file))


if __name__ == "__main__":
    main()

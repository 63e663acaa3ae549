"""Make the samples beside this file from the databases that Caffe2 wrote.

    python tests/data/db/make_samples.py FOLDER

FOLDER holds `mnist-test-nhwc-minidb.zip` and `mnist-test-nchw-lmdb.tar.gz`: MNIST's test images, each record one image
and its label. The samples hold the first 20 records: of the minidb the very bytes, of the LMDB the same records in a
small one of our own.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import lmdb

RECORDS = 20
HERE = Path(__file__).parent
# Archives hold nothing but plain files; the filter that makes sure of it came with Python 3.11.4.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def extract(archive: Path, folder: Path) -> Path:
    """Extract the one database of an archive into `folder`, nothing outside of it, and return its path."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(folder)
    else:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, **SAFELY)
    (found,) = folder.iterdir()
    return found


def cut_minidb(source: Path, target: Path) -> None:
    """Copy the bytes of the first records."""
    data = source.read_bytes()
    end = 0
    for _ in range(RECORDS):
        lengths = (int.from_bytes(data[at : at + 4], "little") for at in (end, end + 4))
        end += 8 + sum(lengths)
    target.write_bytes(data[:end])


def cut_lmdb(source: Path, target: Path) -> None:
    """Copy the first records into a new environment; the lock file, which every user makes anew, is left out."""
    with (
        lmdb.open(str(source), readonly=True, lock=False) as large,
        lmdb.open(str(target), map_size=2**20) as small,
        large.begin() as reading,
        small.begin(write=True) as writing,
    ):
        for _, (key, value) in zip(range(RECORDS), reading.cursor(), strict=False):
            writing.put(key, value)
    (target / "lock.mdb").unlink()


def main() -> None:
    """Make both samples."""
    shared = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        cut_minidb(extract(shared / "mnist-test-nhwc-minidb.zip", Path(first)), HERE / "mnist.minidb")
        cut_lmdb(extract(shared / "mnist-test-nchw-lmdb.tar.gz", Path(second)), HERE / "mnist.lmdb")


if __name__ == "__main__":
    main()

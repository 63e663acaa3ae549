"""What the tests of all databases share: the types, records that each of them takes, and files that Caffe2 wrote."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tazza.db import DBS, Mode, open_db
from tazza.errors import UnavailableError
from tazza.proto import TensorProto

ROOT = Path(__file__).parent.parent.parent
SAMPLES = ROOT / "tests" / "data" / "db"
# Archives hold nothing but plain files; the filter that makes sure of it came with Python 3.11.4.
SAFELY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}

Record = tuple[bytes, bytes]
Fill = Callable[[str, Path, Iterable[str]], list[Record]]


def unavailable(db_type: str) -> str | None:
    """Say why databases of this type cannot be opened here, None when they can."""
    try:
        open_db(db_type, os.devnull, Mode.NEW).close()
    except UnavailableError as error:
        return str(error)
    except OSError:
        return None
    return None


@pytest.fixture(params=sorted(name for name in DBS if name.islower()))
def db_type(request: pytest.FixtureRequest) -> str:
    """Each type of database in turn."""
    name = str(request.param)
    reason = unavailable(name)
    if reason is not None:
        pytest.skip(reason)
    return name


def record(key: str, payload: bytes) -> bytes:
    """Return a value that every type takes under `key`: a tensor of that name."""
    return TensorProto(name=key, data_type=TensorProto.BYTE, byte_data=payload).SerializeToString()


def contents(db_type: str, source: Path) -> list[Record]:
    """Return all records of a database, in order."""
    with open_db(db_type, source) as db, db.cursor() as cursor:
        return list(cursor)


@pytest.fixture
def fill() -> Fill:
    """Add a record for each key to a database, and return these records."""

    def add(db_type: str, source: Path, keys: Iterable[str]) -> list[Record]:
        records = [(key, record(key, f"value of {key}".encode())) for key in keys]
        with open_db(db_type, source, Mode.WRITE) as db, db.transaction() as transaction:
            for key, value in records:
                transaction.put(key, value)
        return [(key.encode(), value) for key, value in records]

    return add


@pytest.fixture
def sample(tmp_path: Path) -> Callable[[str], Path]:
    """Copy a sample, since reading an LMDB makes a lock file beside it."""

    def copy(name: str) -> Path:
        source, target = SAMPLES / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        return target

    return copy


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of large and third-party data, which is not a part of the project."""
    folder = Path(os.environ.get("TAZZA_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"there is no folder '{folder}'; TAZZA_SHARED can name the one that holds it")
    return folder


@pytest.fixture(scope="session")
def extracted(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Callable[[str], Path]:
    """Extract an archive of one database into a temporary folder, nothing outside of it."""

    def extract(name: str) -> Path:
        archive = shared_data / "caffe2" / name
        folder = tmp_path_factory.mktemp("extracted")
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(folder)
        else:
            with tarfile.open(archive) as tar:
                tar.extractall(folder, **SAFELY)
        (found,) = folder.iterdir()
        return found

    return extract

"""Serializers that other floors bring."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tazza.errors import BlobTypeError
from tazza.tensor.blob import blob_type
from tazza.tensor.names import generate
from tazza.tensor.serialization import deserialize, serialize, serialize_blob
from tazza.tensor.serializer import SERIALIZERS, ContentSerializer


@blob_type("std::unique_ptr<caffe2::Ladle>", serialized="Ladle")
class Ladle:
    """A type of another floor, with a stored form of its own."""

    def __init__(self, size: int) -> None:
        self.size = size


class LadleSerializer(ContentSerializer[Ladle]):
    """Stores the size."""

    type_name = "Ladle"

    def encode(self, value: Ladle) -> bytes:
        return b"%d" % value.size

    def decode(self, content: bytes, name: str) -> Ladle:
        return Ladle(int(content))


def test_other_types_bring_their_serializer() -> None:
    with pytest.raises(BlobTypeError, match="Ladle>, which cannot be serialized") as caught:
        serialize(Ladle(3), "l")
    assert "std::string" in str(caught.value.hint)
    SERIALIZERS.register("Ladle", LadleSerializer())
    try:
        assert [key for key, _ in serialize_blob(Ladle(3), "l")] == ["l"]
        assert deserialize(serialize(Ladle(3), "l")).get(Ladle).size == 3
    finally:
        SERIALIZERS.unregister("Ladle")


@pytest.mark.slow
def test_a_process_that_has_met_nothing_reads_every_stored_form() -> None:
    """Also those of operators and databases, whose modules it has not imported."""
    generate()
    known = sorted(key for key in SERIALIZERS.registered() if SERIALIZERS[key].__module__.startswith("tazza."))
    program = (
        f"from tazza.tensor.serializer import SERIALIZERS; print([n for n in {known} if SERIALIZERS.get(n) is None])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

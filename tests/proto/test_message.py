"""Messages there and back, in binary and text; what is refused, and what the errors say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import FileError, FormatError
from tazza.proto import (
    Argument,
    BlobProto,
    DeviceOption,
    MetaNetDef,
    NetDef,
    NetsMap,
    OperatorDef,
    QTensorProto,
    TensorProto,
)
from tazza.proto.message import DEPTH_MAX, format_text, parse, parse_text, read_message, serialize, write_message

INTEROP = Path(__file__).parent.parent / "data" / "interop"

NAMES = st.text(max_size=5)
INT64 = st.integers(-(2**63), 2**63 - 1)
FLOAT32 = st.floats(width=32, allow_nan=False)

TENSORS = st.builds(
    TensorProto,
    dims=st.lists(st.integers(0, 2**40), max_size=4),
    data_type=st.sampled_from(TensorProto.DataType.values()),
    float_data=st.lists(FLOAT32, max_size=3),
    int32_data=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    string_data=st.lists(st.binary(max_size=4), max_size=3),
    raw_data=st.binary(max_size=8),
)
ARGUMENTS = st.builds(
    Argument, name=NAMES, f=FLOAT32, i=INT64, s=st.binary(max_size=4), ints=st.lists(INT64, max_size=3), t=TENSORS
)
OPERATORS = st.builds(
    OperatorDef,
    input=st.lists(NAMES, max_size=3),
    output=st.lists(NAMES, max_size=3),
    type=NAMES,
    arg=st.lists(ARGUMENTS, max_size=2),
    device_option=st.builds(DeviceOption, device_type=st.integers(0, 10), random_seed=st.integers(0, 2**32 - 1)),
)
NETS = st.builds(NetDef, name=NAMES, op=st.lists(OPERATORS, max_size=3), external_input=st.lists(NAMES, max_size=3))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@settings(max_examples=25)  # the text form is parsed by plain Python
@given(NETS)
def test_binary_and_text_give_the_net_back(net: NetDef) -> None:
    assert parse(NetDef, serialize(net), "drawn") == net
    assert parse_text(NetDef, format_text(net), "drawn") == net


@settings(max_examples=25)
@given(NETS)
def test_equal_messages_give_equal_bytes(net: NetDef) -> None:
    copy = NetDef()
    copy.CopyFrom(net)
    assert serialize(copy) == serialize(net)


@given(st.binary(max_size=60))
def test_random_bytes_parse_or_raise_format_error(data: bytes) -> None:
    for message_type in (NetDef, BlobProto, MetaNetDef, QTensorProto):
        try:
            message = parse(message_type, data, "noise")
        except FormatError:
            continue
        assert message.IsInitialized()


@settings(max_examples=50)
@given(NETS, st.data())
def test_truncated_net_parses_to_a_part_or_raises_format_error(net: NetDef, data: st.DataObject) -> None:
    whole = serialize(net)
    cut = data.draw(st.integers(0, len(whole)))
    try:
        part = parse(NetDef, whole[:cut], "cut")
    except FormatError as error:
        assert f"{cut} bytes" in str(error)  # noqa: PT017 (most cuts raise, those between two fields do not)
    else:
        assert len(part.op) <= len(net.op)


BROKEN: dict[str, tuple[type[Message], bytes, str]] = {
    "truncated": (NetDef, b"\x0a\x05ab", "here is no caffe2.NetDef: 4 bytes that do not parse"),
    "noise": (TensorProto, b"\xff" * 11, "here is no caffe2.TensorProto: 11 bytes that do not parse"),
    "text": (NetDef, b'name: "lenet"', "here is no caffe2.NetDef: 13 bytes"),
    "missing required": (NetsMap, b"\x0a\x01k", "caffe2.NetsMap: the required fields value are missing"),
    "missing inside": (
        MetaNetDef,
        b"\x12\x00",
        r"caffe2.MetaNetDef: the required fields nets\[0\].key, nets\[0\].value",
    ),
    "not UTF-8": (NetDef, b"\x12\x04\x0a\x02\xff\xfe", "caffe2.NetDef.*(caffe2.OperatorDef.input|0xff)"),
}


@pytest.mark.parametrize(("message_type", "data", "says"), BROKEN.values(), ids=BROKEN)
def test_broken_bytes(message_type: type[Message], data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        parse(message_type, data, "here")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("escape", ["\\", "\\'", "\\8", "\\q", "\\x", "\\u12", "\\777", "\\N{DASH}"])
@pytest.mark.parametrize("field", ["name: '{}'", "op { arg { s: '{}' } }"])
def test_escapes_of_the_text_form(field: str, escape: str) -> None:
    """Whatever stands behind a backslash: text, or a FormatError, also where warnings are errors."""
    try:
        parse_text(NetDef, field.replace("{}", escape), "escaped")
    except FormatError:
        pass


def nested_text(depth: int) -> str:
    """Return a net in text form with so many messages within each other."""
    heads = ("op {", "arg {", "n {")
    return "".join(heads[level % 3] for level in range(depth)) + "}" * depth


@pytest.mark.parametrize("depth", [*range(DEPTH_MAX - 3, DEPTH_MAX + 4), 3 * DEPTH_MAX, 5000])
def test_both_forms_take_the_same_nesting(depth: int) -> None:
    """What the text form lets through can be written, and read again, in either form."""
    try:
        net = parse_text(NetDef, nested_text(depth), "nested")
    except FormatError:
        assert depth > DEPTH_MAX
        return
    assert depth <= DEPTH_MAX
    assert parse(NetDef, serialize(net), "nested") == net


def test_nesting_without_end_is_refused() -> None:
    data = b""
    for _ in range(200):  # a net in an argument of a net; lengths as two-byte varints
        inner = bytes([0x42, len(data) & 0x7F | 0x80, len(data) >> 7]) + data
        data = bytes([0x32, len(inner) & 0x7F | 0x80, len(inner) >> 7]) + inner
    with pytest.raises(FormatError, match="do not parse"):
        parse(NetDef, data, "deep")
    with pytest.raises(FormatError, match="do not parse"):
        parse_text(NetDef, "arg { n { " * 3000, "deep")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("op { type: 3 }", "1:12"),
        ('op {\n colour: "red" }', '2:2.*"colour"'),
        ('name: "\\377"', "utf-8"),
        ("op {", "do not parse"),
    ],
)
def test_broken_text(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        parse_text(NetDef, text, "here")
    assert f"here is no caffe2.NetDef in text form: {len(text)} bytes" in str(caught.value)


def test_missing_required_field_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"caffe2\.NetsMap: the required fields value are missing"):
        write_message(tmp_path / "map.pb", NetsMap(key="k"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["net.pb", "net.pbtxt", "net.prototxt", "net.txt"])
def test_file_there_and_back(tmp_path: Path, name: str) -> None:
    net = NetDef(name="caffè", op=[OperatorDef(type="Relu", input=["X"], output=["Y"])])
    write_message(tmp_path / name, net)
    assert read_message(tmp_path / name, NetDef) == net
    is_text = b"type: " in (tmp_path / name).read_bytes()
    assert is_text == (name != "net.pb")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"absent\.pb': No such file"):
        read_message(tmp_path / "absent.pb", NetDef)
    with pytest.raises(FileError, match="cannot read"):
        read_message(tmp_path, NetDef)
    os.mkfifo(tmp_path / "pipe.pb")
    with pytest.raises(FileError, match="no regular file"):
        read_message(tmp_path / "pipe.pb", NetDef)
    (tmp_path / "binary.pbtxt").write_bytes(b"\x0a\x80\xff")
    with pytest.raises(FormatError, match="3 bytes that are not UTF-8"):
        read_message(tmp_path / "binary.pbtxt", NetDef)


def test_file_too_long_for_a_message_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "sparse.pb").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(FormatError, match="2147483648 bytes, and a message has at most 2147483647"):
        read_message(tmp_path / "sparse.pb", NetDef)


@pytest.mark.parametrize("name", ["resnet_32x32/predict_net.pb", "lenet_mnist/predict_net.pb"])
def test_binary_net_of_caffe2_keeps_its_bytes(tmp_path: Path, name: str) -> None:
    net = read_message(INTEROP / name, NetDef)
    assert len(net.op) > 3
    write_message(tmp_path / "net.pb", net)
    assert (tmp_path / "net.pb").read_bytes() == (INTEROP / name).read_bytes()


@pytest.mark.parametrize("name", ["lenet_mnist/train_net.pbtxt", "lenet_mnist/param_init_net.pbtxt"])
def test_text_net_of_caffe2_keeps_its_meaning(tmp_path: Path, name: str) -> None:
    net = read_message(INTEROP / name, NetDef)
    assert len(net.op) > 3
    write_message(tmp_path / "net.pbtxt", net)
    assert read_message(tmp_path / "net.pbtxt", NetDef) == net
    assert parse(NetDef, serialize(net), name) == net
    # Caffe2 wrote more digits of some numbers than a float has; everything else is written as it was.
    pairs = zip(_lines(tmp_path / "net.pbtxt"), _lines(INTEROP / name), strict=True)
    assert {ours.split(":")[0].strip() for ours, theirs in pairs if ours != theirs} <= {"f"}

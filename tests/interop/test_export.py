"""Init and predict nets that are written, and read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tazza.errors import BlobTypeError, DTypeError, FileError, NetError, NotFoundError
from tazza.interop import export_nets, load, needed_operators, save_nets
from tazza.models import Model, Net
from tazza.operator import find_argument
from tazza.proto import NetDef
from tazza.proto.message import parse_text, read_message, serialize
from tazza.workspace import Workspace

PARAMETERS = ["y_w", "y_b", "z_w", "z_b"]


def test_a_training_net_gives_the_part_that_predicts(model: Model, workspace: Workspace) -> None:
    init_net, predict_net = export_nets(model, workspace, outputs=["p"])
    assert [op.type for op in predict_net.op] == ["FC", "Relu", "FC", "Softmax"]
    assert list(predict_net.external_input) == ["x", *PARAMETERS]
    assert list(predict_net.external_output) == ["p"]
    assert [(op.type, op.output[0]) for op in init_net.op] == [("GivenTensorFill", n) for n in [*PARAMETERS, "x"]]
    assert not any(op.HasField("debug_info") for op in predict_net.op)


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt"])
def test_what_is_written_predicts_the_same(model: Model, workspace: Workspace, tmp_path: Path, suffix: str) -> None:
    init_path, predict_path = tmp_path / f"init_net{suffix}", tmp_path / f"predict_net{suffix}"
    save_nets(init_path, predict_path, model, workspace, outputs=["p"])
    with load(init_path, predict_path) as predictor:
        assert (predictor.inputs, predictor.outputs) == (("x",), ("p",))
        got = predictor.run(x=workspace.fetch("x"))
    np.testing.assert_array_equal(got["p"], workspace.fetch("p"))


def test_equal_models_give_equal_files(model: Model, workspace: Workspace, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_nets(tmp_path / f"init_{name}", tmp_path / f"predict_{name}", model, workspace, outputs=["p"])
    for kind in ("init", "predict"):
        first = (tmp_path / f"{kind}_a").read_bytes()
        assert first == (tmp_path / f"{kind}_b").read_bytes()
        assert serialize(read_message(tmp_path / f"{kind}_a", NetDef)) == first


def test_a_parameter_that_is_a_single_0_is_no_placeholder() -> None:
    net = Net("single")
    net.add_external_output(net.add("FC", ["x", "w", "b"], "y"))
    ws = Workspace()
    for name, shape in (("w", (1, 2)), ("b", (1,))):
        ws.feed(name, np.zeros(shape, np.float32))
    init_net, predict_net = export_nets(net, ws, parameters=["w", "b"])
    with load(init_net, predict_net) as predictor:
        assert predictor.inputs == ("x",)


def test_types_of_parameters() -> None:
    net = Net("typed")
    net.add_external_output(net.add("Copy", "k", "y"))
    ws = Workspace()
    for values in (np.array([[1, 2]], np.int64), np.array([b"a", b"bc"], object), np.array([3, 255], np.uint8)):
        ws.reset()
        ws.feed("k", values)
        init_net, _ = export_nets(net, ws, parameters=["k"])
        again = Workspace()
        again.run_net_once(init_net, strict=True)
        np.testing.assert_array_equal(again.fetch("k"), values)
    ws.reset()
    ws.feed("k", np.zeros(2, np.float16))
    with pytest.raises(DTypeError, match="float16"):
        export_nets(net, ws, parameters=["k"])


def test_values_of_a_fill_are_exact(model: Model, workspace: Workspace) -> None:
    init_net, _ = export_nets(model, workspace, outputs=["p"])
    values = find_argument(init_net.op[0], "values")
    assert values is not None
    np.testing.assert_array_equal(np.array(values.floats, np.float32), workspace.fetch("y_w").ravel())


OVERWRITTEN = """
op { type: "Relu" input: "x" output: "a" }
op { type: "Scale" input: "a" output: "a" }
op { type: "Relu" input: "a" output: "y" }
op { type: "Copy" input: "y" output: "other" }
op { type: "Copy" input: "x" output: "a" }
"""


def test_only_what_an_output_needs_is_kept() -> None:
    operators, read = needed_operators(parse_text(NetDef, OVERWRITTEN, "a test"), ["y"])
    assert [op.type for op in operators] == ["Relu", "Scale", "Relu"]
    assert read == ["x"]


def test_what_is_refused(model: Model, workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(NetError, match="declares no outputs"):
        export_nets(model, workspace)
    with pytest.raises(NetError, match="makes the output 'nobody'"):
        export_nets(model, workspace, outputs=["nobody"])
    with pytest.raises(NetError, match="does not know its parameters"):
        export_nets(model.net, workspace, outputs=["p"])
    with pytest.raises(NotFoundError, match="'y_w' does not exist"):
        export_nets(model, Workspace(), outputs=["p"])
    workspace.feed("y_w", "text")
    with pytest.raises(BlobTypeError, match="'y_w' holds no values"):
        export_nets(model, workspace, outputs=["p"])
    with pytest.raises(FileError, match="missing"):
        load(tmp_path / "missing.pb", tmp_path / "missing.pb")

"""Folders with the files of a model, under the names that people give them; and nets in each other's place."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tazza
from tazza.errors import DBError, FileError, FormatError, NetError
from tazza.interop.model_folder import find_nets, read_value_info
from tazza.models import Model
from tazza.proto import NetDef
from tazza.workspace import Workspace

X = np.array([[1, -2, 3], [0, 4, -1]], np.float32)


def write_pair(folder: Path, init: str, predict: str) -> None:
    """Write x (N, 3) -> y (N, 2): sums of the first and of the last two."""
    model, workspace = Model("sums"), Workspace()
    y = model.fc("x", "y", 3, 2)
    workspace.feed("y_w", np.array([[1, 1, 0], [0, 1, 1]], np.float32))
    workspace.feed("y_b", np.zeros(2, np.float32))
    workspace.feed("x", X)
    tazza.save_nets(folder / init, folder / predict, model, workspace, outputs=[y])


NAMES = [
    ("init_net.pb", "predict_net.pb"),
    ("squeezenet_init_net.pb", "squeezenet_predict_net.pb"),
    ("init-net.pbtxt", "predict-net.pbtxt"),
    ("model_init.pb", "model.pb"),
    ("init.pb", "predict.pb"),
    ("resnet50-init_net.pb", "resnet50-predict_net.pbtxt"),
    ("exec_init_net.pb", "exec_net.pb"),
    ("param_init_net.pb", "predict_net.pb"),
]


@pytest.mark.parametrize(("init", "predict"), NAMES)
def test_names_that_people_give(tmp_path: Path, init: str, predict: str) -> None:
    write_pair(tmp_path, init, predict)
    (tmp_path / "readme.txt").write_text("words")
    (tmp_path / "train_net.pbtxt").write_text('name: "train"')
    with tazza.load(tmp_path) as predictor:
        np.testing.assert_array_equal(predictor.run(x=X)["y"], [[-1, 1], [4, 3]])


def test_the_plain_pair_counts_of_several(tmp_path: Path) -> None:
    write_pair(tmp_path, "a_init_net.pb", "a_predict_net.pb")
    write_pair(tmp_path, "b_init_net.pb", "b_predict_net.pb")
    with pytest.raises(FileError, match=r"has 2 models: a_init_net.pb and a_predict_net.pb; b_init"):
        tazza.load(tmp_path)
    write_pair(tmp_path, "init_net.pb", "predict_net.pb")
    write_pair(tmp_path, "param_init_net.pb", "predict_net.pbtxt")
    found = find_nets(tmp_path)
    assert (found.init, found.main) == (tmp_path / "init_net.pb", tmp_path / "predict_net.pb")


def test_a_predictor_file_alone(tmp_path: Path) -> None:
    model, workspace = Model("relu"), Workspace()
    workspace.feed("x", X)
    model.net.add_external_output(model.relu("x", "y"))
    tazza.save_predictor(tmp_path / "relu.minidb", model, workspace)
    with tazza.load(tmp_path) as predictor:
        assert predictor.run(x=X)["y"].min() == 0


def test_half_a_model_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"has no predict_net.pb and init_net.pb"):
        tazza.load(tmp_path)
    write_pair(tmp_path, "init_net.pb", "predict_net.pb")
    (tmp_path / "init_net.pb").rename(tmp_path / "weights")
    with pytest.raises(FileError, match=r"has predict_net.pb, and no init_net.pb"):
        tazza.load(tmp_path)
    with pytest.raises((DBError, FormatError), match="together with its init net"):
        tazza.load(tmp_path / "predict_net.pb")
    (tmp_path / "weights").rename(tmp_path / "init_net.pb")
    (tmp_path / "predict_net.pb").unlink()
    with pytest.raises(FileError, match=r"has init_net.pb, and no predict_net.pb"):
        tazza.load(tmp_path)


def test_nets_in_each_others_place_are_noticed(tmp_path: Path) -> None:
    write_pair(tmp_path, "predict_net.pb", "init_net.pb")  # the names, too
    for given in ((tmp_path,), (tmp_path / "init_net.pb", tmp_path / "predict_net.pb")):
        with pytest.raises(NetError, match=r"stand in each other's place: the one given as predict net"):
            tazza.load(*given)
    with tazza.load(tmp_path / "predict_net.pb", tmp_path / "init_net.pb") as predictor:
        assert predictor.inputs == ("x",)


def test_value_info_tells_the_inputs(tmp_path: Path) -> None:
    write_pair(tmp_path, "init_net.pb", "predict_net.pb")
    (tmp_path / "value_info.json").write_text(json.dumps({"x": [1, [2, 3]]}))
    assert [str(spec) for spec in (read_value_info(tmp_path / "value_info.json") or {}).values()] == ["float32[2, 3]"]
    with tazza.load(tmp_path) as predictor:
        assert predictor.inputs == ("x",)


@pytest.mark.parametrize("text", ["[]", '{"x": 3}', '{"x": [1, [-1]]}', '{"x": [99, [1]]}', '{"x": [1, "ab"]}', "{"])
def test_broken_value_info(tmp_path: Path, text: str) -> None:
    write_pair(tmp_path, "init_net.pb", "predict_net.pb")
    (tmp_path / "value_info.json").write_text(text)
    with pytest.raises(FormatError, match=r"value_info.json' is no table of inputs"):
        tazza.load(tmp_path)


def test_nets_that_only_look_so() -> None:
    """A net that reads nothing may predict; one whose init net reads what it is given is none that stands elsewhere."""
    constant = NetDef(name="constant")
    constant.op.add(type="ConstantFill", output=["y"]).arg.add(name="shape", ints=[2])
    with tazza.load(NetDef(name="nothing"), constant) as predictor:
        np.testing.assert_array_equal(predictor.run()["y"], [0, 0])

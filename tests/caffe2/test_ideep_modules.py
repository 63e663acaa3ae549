"""`ideep.*`: nets with normalizations in their weights; `test_module_nets.py` compares them with Caffe2's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from caffe2.python.ideep import test_ideep_net as benchmarks
from caffe2.python.ideep import transform_ideep_net as transform
from tazza.errors import FileError, NetError
from tazza.proto.message import read_message, write_message

RANDOM = np.random.default_rng(6)
PARAMS = {
    "w": RANDOM.standard_normal((4, 3, 2, 2)).astype(np.float32),
    **{name: (np.abs(RANDOM.standard_normal(4)) + 0.5).astype(np.float32) for name in ("s", "bi", "m", "v")},
    **{name: RANDOM.standard_normal(4).astype(np.float32) for name in ("mu", "ad")},
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    monkeypatch.chdir(tmp_path)
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def net(*ops: Any) -> caffe2_pb2.NetDef:
    made = caffe2_pb2.NetDef(name="n", external_input=["x", *PARAMS], external_output=["y"])
    made.op.extend(core.CreateOperator(kind, i.split(), o.split(), **arguments) for kind, i, o, arguments in ops)
    return made


CONV = ("Conv", "x w", "c", {"kernel": 2})
NORM = ("SpatialBN", "c s bi m v", "d", {"is_test": 1, "epsilon": 0.5})
MUL = ("Mul", "d mu", "e", {"broadcast": 1, "axis": 1})
ADD = ("Add", "e ad", "y", {"broadcast": 1, "axis": 1})


def optimized(*options: str, shapes: Any = None) -> caffe2_pb2.NetDef:
    """Write the files of a net, and return what became of it."""
    write_message("init.pb", transform.gen_init_net_from_blobs(PARAMS))
    write_message("pred.pb", net(CONV, NORM, MUL, ADD))
    arguments = ["--init_net", "init.pb", "--pred_net", "pred.pb", *options]
    if shapes is not None:
        Path("shapes.json").write_text(json.dumps(shapes))
        arguments += ["--verify_input", "shapes.json"]
    transform.Optimize(transform.GetArgumentParser().parse_args(arguments))
    return read_message("predict_net.pb", caffe2_pb2.NetDef)


def test_files_have_fewer_operators_and_the_same_numbers(capsys: Any) -> None:
    made = optimized("--fuse_mul_add", "--fuse_bn", "--fuse_conv_relu", shapes={"x": [1, [2, 3, 6, 5]]})
    assert [op.type for op in made.op] == ["Conv"]
    assert capsys.readouterr().out == "op[0]: Conv\n"
    given = RANDOM.standard_normal((2, 3, 6, 5)).astype(np.float32)
    results: list[Any] = []
    for init, predict in (("init.pb", "pred.pb"), ("init_net.pb", "predict_net.pb")):
        workspace.ResetWorkspace()
        workspace.RunNetOnce(read_message(init, caffe2_pb2.NetDef))
        workspace.FeedBlob("x", given)
        workspace.RunNetOnce(read_message(predict, caffe2_pb2.NetDef))
        results.append(workspace.FetchBlob("y"))
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_without_options_nothing_changes() -> None:
    assert optimized() == net(CONV, NORM, MUL, ADD)


def test_a_net_that_gives_other_numbers_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(net: Any, params: dict[str, Any], ignore_failure: bool) -> Any:
        return net, {**params, "s": 2 * params["s"]}, []

    monkeypatch.setattr(transform, "fuse_bn", wrong)
    with pytest.raises(NetError, match="do not give the same numbers"):
        optimized("--fuse_bn", shapes={"x": [1, [2, 3, 6, 5]]})
    assert not Path("predict_net.pb").exists()


UNFOLDED: list[Any] = [
    (CONV, ("SpatialBN", "c s bi m v", "y m v sm sv", {"is_test": 0})),
    (CONV, ("SpatialBN", "c s bi m v", "y", {"is_test": 1}), ("Relu", "c", "z", {})),
    (("Relu", "x", "c", {}), ("SpatialBN", "c s bi m v", "y", {"is_test": 1})),
]


@pytest.mark.parametrize("ops", UNFOLDED)
def test_what_cannot_be_folded_stays_and_is_told(ops: Any) -> None:
    """That of Caffe2 folds one that trains as well."""
    given = net(*ops)
    assert transform.fuse_bn(given, PARAMS, True)[0] == given
    with pytest.raises(NetError, match="net 'n' has a SpatialBN"):
        transform.fuse_bn(given, PARAMS, False)


def test_what_was_given_stays_as_it_was() -> None:
    given, params = net(CONV, ("SpatialBN", "c s bi m v", "y", {"is_test": 1})), dict(PARAMS)
    made, changed, removed = transform.fuse_bn(given, params, False)
    assert len(given.op) == 2
    assert params.keys() == PARAMS.keys()
    assert (len(made.op), removed) == (1, ["s", "bi", "m", "v"])
    assert set(changed) == {"w", "w_bias", "mu", "ad"}


def test_a_parameter_that_two_normalizations_read_is_there_for_both() -> None:
    second = ("Conv", "y w2", "e", {"kernel": 1}), ("SpatialBN", "e s bi m v", "z", {"is_test": 1})
    given = net(CONV, ("SpatialBN", "c s bi m v", "y", {"is_test": 1}), *second)
    made, changed, _ = transform.fuse_bn(given, {**PARAMS, "w2": np.ones((4, 4, 1, 1), np.float32)}, False)
    assert [op.type for op in made.op] == ["Conv", "Conv"]
    assert "s" not in changed


def test_a_net_of_a_folder_is_timed(capfd: pytest.CaptureFixture[str]) -> None:
    write_message("init_net.pb", transform.gen_init_net_from_blobs(PARAMS))
    write_message("predict_net.pb", net(CONV, NORM, MUL, ADD))
    Path("value_info.json").write_text('{"x": [1, [1, 3, 6, 5]]}')
    options = ["--model", ".", "--batch_size", "4", "--iterations", "1", "--warmup_iterations", "1", "--dump_model"]
    benchmarks.benchmark(benchmarks.GetArgumentParser().parse_args(options))
    told = capfd.readouterr().out
    assert told.startswith("Batch size: 4\n")
    assert 'type: "SpatialBN"' in told
    assert "FPS: " in told
    assert workspace.FetchBlob("y").shape == (4, 4, 5, 4)
    with pytest.raises(FileError, match="nowhere"):
        benchmarks.benchmark(benchmarks.GetArgumentParser().parse_args(["--model", "nowhere"]))

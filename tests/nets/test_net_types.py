"""Every net with every net type that is registered, against the same net of the type `simple`.

All blobs are compared, to the last bit; of `plan`, which computes otherwise, those that can be fetched, to a tolerance.
Each net runs several times, so that what a run leaves for the next one counts too, and since types may run what they
have measured in another way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import InitError, KernelError, NetError, OutOfMemoryError
from tazza.interop import PredictorFile, load
from tazza.interop.predictor_file import ROLES
from tazza.models import Model, sgd
from tazza.models.training import seed_operators
from tazza.models.zoo import CLASSIFIERS
from tazza.nets import NETS, NetBase, SimpleNet
from tazza.nets.base import OVERRIDES
from tazza.nets.plan.rewrite import survivors_of
from tazza.nets.simple_refcount import last_readers
from tazza.operator import operator_def, read_first
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.tensor import Tensor
from tazza.workspace import Workspace

Array = NDArray[Any]
DATA = Path(__file__).parents[1] / "data"
SHARED = Path(os.environ.get("TAZZA_SHARED", DATA.parents[2] / "shared")) / "data"
"""What is too large for the project."""
TYPES = sorted(name for name in NETS if NETS[name] is not SimpleNet)
WORKERS = 2


@dataclass(frozen=True, eq=False)
class Case:
    """A net, what makes its inputs, how often it runs, and how far `plan` may be off, of the largest number."""

    net: NetDef
    feed: Callable[[Workspace], object]
    runs: int = 5
    tolerance: float = 1e-4


def results(case: Case, kind: str) -> Workspace:
    """Run a net as one of a type."""
    ws = Workspace()
    case.feed(ws)
    net = NetDef()
    net.CopyFrom(case.net)
    net.name, net.type, net.num_workers = "n", kind, WORKERS
    ws.create_net(net)
    ws.run_net("n", case.runs)
    ws.delete_net("n")
    return ws


def tensors(ws: Workspace) -> dict[str, Array]:
    """Return the tensors of a workspace."""
    return {name: ws.fetch(name) for name in ws.blob_names() if isinstance(ws.blob(name).value, Tensor)}


@cache
def simple_results(case: Case) -> dict[str, Array]:
    """Return the tensors that a net leaves as `simple`."""
    return tensors(results(case, "simple"))


def check(case: Case, kind: str) -> None:
    """Assert that a net gives what it gives as `simple`."""
    expected, found = simple_results(case), tensors(results(case, kind))
    assert any(array.size for array in expected.values())
    if kind == "plan":
        kept = survivors_of(case.net)
        close({name: array for name, array in expected.items() if name in kept}, found, case.tolerance)
        return
    emptied = set(last_readers(case.net)) if kind == "simple_refcount" else set[str]()
    assert found.keys() == expected.keys() - emptied
    for name, array in found.items():
        assert (array.dtype, array.shape) == (expected[name].dtype, expected[name].shape), name
        assert array.tobytes() == expected[name].tobytes(), f"{name}: other bits"


def close(expected: Mapping[str, Array], found: Mapping[str, Array], tolerance: float) -> None:
    """Assert that arrays of one name are equal, to a tolerance that is a share of the largest number."""
    assert expected.keys() <= found.keys()
    for name, array in expected.items():
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(found[name], array, err_msg=name)
            continue
        span = float(np.abs(array, where=np.isfinite(array), out=np.zeros_like(array)).max(initial=1e-4))
        np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance * span, err_msg=name)


def draw(*shape: int, seed: int = 0) -> Array:
    """Return normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# -- nets of the tests' data -------------------------------------------------------------------------------------------

NOT_RUN = {"Concat(a, a) beside Sum": "adds blobs of unequal shapes"}
RECORDED = [
    recorded
    for recorded in json.loads((DATA / "backward_passes.json").read_text())
    if "refused" not in recorded and recorded["id"] not in NOT_RUN
]
STEP = 15
"""The fast tests run one of so many of them."""


def recorded_case(recorded: Mapping[str, Any]) -> Case:
    """Return a recorded net with its gradients; all its blobs are 4 x 4, biases 4."""
    parts = [NetDef.FromString(bytes.fromhex(recorded[key])) for key in ("forward", "backward")]
    net = NetDef(op=[op for part in parts for op in part.op])

    def feed(ws: Workspace) -> None:
        for name in read_first(net.op):
            ws.feed(name, draw(*(4,) if name.endswith("b") else (4, 4), seed=len(ws.blob_names())))

    return Case(net, feed)


RECORDED_CASES = {recorded["id"]: recorded_case(recorded) for recorded in RECORDED}


@pytest.mark.slow
@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", TYPES)
def test_recorded_nets_with_gradients(kind: str, others: bool) -> None:
    """Random nets with shared, overwritten and summed blobs."""
    for name in [name for number, name in enumerate(RECORDED_CASES) if (number % STEP > 0) == others]:
        try:
            check(RECORDED_CASES[name], kind)
        except BaseException as error:
            error.add_note(f"in net {name}")
            raise


# -- nets that genuine Caffe2 wrote ------------------------------------------------------------------------------------


def lenet_case(name: str) -> Case:
    """Return LeNet as Caffe2 exported it, or the net that trained it."""
    folder = DATA / "interop" / "lenet_mnist"
    init = read_message(folder / "param_init_net.pbtxt", NetDef)
    seed_operators(init, 1)

    def feed(ws: Workspace) -> None:
        ws.feed("data", draw(5, 1, 28, 28))
        ws.feed("label", np.array([3, 1, 0, 9, 3], np.int32))
        ws.run_net_once(init)

    return Case(read_message(folder / name, NetDef), feed)


def predictor_case() -> Case:
    """Return the net of a predictor file that Caffe2 wrote."""
    file = PredictorFile.read(DATA / "interop" / "small" / "predictor.minidb")

    def feed(ws: Workspace) -> None:
        with load(DATA / "interop" / "small" / "predictor.minidb") as predictor:
            for name in file.blobs(ROLES.PARAMETERS_BLOB_TYPE):
                ws.feed(name, predictor.workspace.fetch(name))
        ws.feed("x", draw(7, 3))

    return Case(file.net(ROLES.PREDICT_NET_TYPE), feed)


def resnet_case() -> Case:
    """Return a net of residual blocks that Caffe2 exported; its parameters are too large for the project."""
    init = read_message(SHARED / "interop" / "resnet_32x32" / "init_net.pb", NetDef)

    def feed(ws: Workspace) -> None:
        ws.run_net_once(init)
        ws.feed("data", draw(2, 3, 32, 32))

    return Case(read_message(DATA / "interop" / "resnet_32x32" / "predict_net.pb", NetDef), feed)


STORED: dict[str, Case] = {
    "lenet": lenet_case("predict_net.pb"),
    "lenet, trained": lenet_case("train_net.pbtxt"),
    "small": predictor_case(),
}


@pytest.mark.parametrize("name", [pytest.param("lenet", marks=pytest.mark.slow), "lenet, trained", "small"])
@pytest.mark.parametrize("kind", TYPES)
def test_nets_that_caffe2_wrote(kind: str, name: str) -> None:
    check(STORED[name], kind)


@pytest.mark.slow
@pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"there is no folder '{SHARED}'; TAZZA_SHARED can name the one above it"
)
@pytest.mark.parametrize("kind", TYPES)
def test_a_large_net_that_caffe2_wrote(kind: str) -> None:
    check(resnet_case(), kind)


# -- the zoo -----------------------------------------------------------------------------------------------------------

BATCH = 3
SMALL: dict[str, dict[str, Any]] = {
    "lenet": {"classes": 5},
    "mlp": {"classes": 5},
    "squeezenet": {"size": 32, "width": 0.125, "classes": 5},
    "googlenet": {"size": 32, "width": 0.125, "classes": 5},
    "vgg16": {"size": 32, "width": 0.0625, "classes": 5},
    "resnet50": {"size": 32, "width": 0.125, "classes": 5, "blocks": (1, 2)},
    # Few values, and many behind each mean: where a plan rounds otherwise than `simple`, a value that crosses a kink of
    # Relu6 by that changes gradients by several percent, and with all stages some do.
    "mobilenet_v2": {"size": 32, "width": 0.5, "classes": 5, "stages": ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 1, 1))},
}


@cache
def zoo_case(name: str, *, training: bool) -> Case:
    """Return a small net of the zoo; a training one drops at random and updates its parameters."""
    build = CLASSIFIERS[name].training if training else CLASSIFIERS[name].inference
    model: Model = build(**SMALL[name])
    if training:
        sgd(model, 1e-3, momentum=0.9)
    for seed, net in enumerate((model.init_net.proto, model.net.proto)):
        seed_operators(net, seed)
    init = model.init_net.proto
    shape = CLASSIFIERS[name].input_shape(BATCH, size=SMALL[name].get("size"))

    def feed(ws: Workspace) -> None:
        ws.run_net_once(init)
        ws.feed("data", draw(*shape))
        ws.feed("label", np.array([1, 4, 2], np.int32))

    return Case(model.net.proto, feed, runs=2, tolerance=2e-2 if training else 1e-4)


def test_the_zoo_is_whole() -> None:
    assert sorted(SMALL) == sorted(CLASSIFIERS)


# A net by all types in a row: a process that runs a part of the tests makes fewer of what they are compared with.
# Every net by every type: a half of the pairs only runs it, the other half trains.
TRAINED = {(kind, name) for number, name in enumerate(sorted(SMALL)) for kind in TYPES[number % 2 :: 2]}
PAIRS = [(kind, name) for name in SMALL for kind in TYPES]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), [pair for pair in PAIRS if pair not in TRAINED])
def test_nets_of_the_zoo(kind: str, name: str) -> None:
    check(zoo_case(name, training=False), kind)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), [pair for pair in PAIRS if pair in TRAINED])
def test_a_step_of_training(kind: str, name: str) -> None:
    check(zoo_case(name, training=True), kind)


# -- names of types ----------------------------------------------------------------------------------------------------


def made(kind: str, override: str = "") -> type[NetBase]:
    """Return the class of the net that is made for a type, while the flag that replaces types says `override`."""
    ws = Workspace()
    ws.feed("x", draw(2))
    net = NetDef(name="n", type=kind, num_workers=WORKERS, op=[operator_def("Relu", ["x"], ["y"])])
    with OVERRIDES.override(override):
        return type(ws.create_net(net))


def test_types_that_mean_simple() -> None:
    """behaviours.md row 33."""
    assert {name for name in NETS if NETS[name] is SimpleNet} == {"simple", "async_simple", "rnn"}


def test_types_of_caffe2_are_there() -> None:
    """behaviours.md row 33."""
    for kind in ("dag", "async_dag", "async_scheduling", "async_polling", "parallel", "simple_refcount"):
        assert made(kind) is NETS[kind]


OVERRIDDEN = {
    "dag,simple": {"dag": "simple", "async_dag": "async_dag"},
    "dag,simple,async_dag,simple": {"dag": "simple", "async_dag": "simple", "": "simple"},
    "simple,dag": {"": "dag", "simple": "dag", "rnn": "simple"},
    "dag,simple,dag,async_dag": {"dag": "async_dag"},
    "dag,async_scheduling,async_scheduling,simple": {"dag": "async_scheduling", "async_scheduling": "simple"},
    "dag,simple,": {"dag": "simple"},
    ",simple": {"": "simple", "dag": "dag"},
    " dag , simple ": {"dag": "simple"},
    "dag,rnn,rnn,dag": {"dag": "simple"},
    "": {"dag": "dag"},
}
"""The flag `caffe2_override_executor`, and what runs instead of what, all as in Caffe2 but for two: there, spaces
belong to a name, and `rnn`, which is only another name, cannot stand for another type.
"""


@pytest.mark.parametrize("override", OVERRIDDEN)
def test_the_flag_replaces_types(override: str) -> None:
    for kind, instead in OVERRIDDEN[override].items():
        assert made(kind, override) is NETS[instead], kind


@pytest.mark.parametrize("override", ["dag", "dag,", "dag,simple,rnn", "dag,simple;rnn,dag"])
def test_half_a_pair_is_refused(override: str) -> None:
    """In Caffe2 too, for every net, whatever its type."""
    for kind in ("dag", "simple", ""):
        with pytest.raises(InitError, match="caffe2_override_executor takes pairs of net types"):
            made(kind, override)


def test_a_replacement_has_to_exist() -> None:
    with pytest.raises(NetError, match="unknown type 'dagg'") as caught:
        made("simple", "simple,dagg")
    assert "did you mean dag?" in str(caught.value)
    assert made("dag", "simple,dagg") is NETS["dag"]


@pytest.mark.parametrize("kind", sorted(NETS))
def test_what_a_kernel_raises_becomes_a_typed_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is not there is told as that, whatever Python error a kernel raises, in nets of every type."""
    for raised, expected in ((MemoryError("1 GiB"), OutOfMemoryError), (KeyError("x"), KernelError)):

        def fails(*_: object, raised: Exception = raised, **__: object) -> None:
            raise raised

        workspace = Workspace()
        workspace.feed("X", np.ones(3, np.float32))
        ops = [operator_def("Softsign", ["X"], ["Y"], engine="reference")]
        made = NetDef(name="n", type=kind, op=ops, external_input=["X"], external_output=["Y"], num_workers=1)
        net = workspace.create_net(made)
        net.run()
        monkeypatch.setattr(np, "divide", fails)
        with pytest.raises(expected):
            net.run()
        monkeypatch.undo()

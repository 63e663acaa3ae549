"""Record runs of the genuine Caffe2 into `tests/data/golden/<Op>.npz`, for operators that compute tensors.

Needs Caffe2 as it came with PyTorch 1.8.1, Python 3.8 and NumPy 1.23, and nothing of tazza; this file therefore runs
on Python 3.8 too:

    python3.8 tools/record_golden.py [FOLDER]

Keys of a file: `caseNN/op` the serialized OperatorDef, `caseNN/inJ` and `caseNN/outJ` the blobs in the order of the
OperatorDef (text has dtype S; a blob that is no tensor is the text that Caffe2 shows for it; one of whole numbers with
a scale has that and its zero point in `caseNN/inJ_int8` or `caseNN/outJ_int8`), `caseNN/gradJ` the
OperatorDefs that the gradient maker emits when the gradient of output `y` is called `y_grad`. Each case runs three
times, each time as the first run of a new operator in an empty workspace, and is refused unless all three agree to
the last bit.

Left out are operators that give no tensor: Print, Save, CreateMutex, CreateDB; and those that read files: Load and
TensorProtosDBInput.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "golden"
RUNS = 3
MUTEX = "a mutex"
"""Stands for an input that `CreateMutex` makes."""


class Int8(NamedTuple):
    """Whole numbers, of uint8 or int32, with a scale and a zero point."""

    data: Any
    scale: float
    zero_point: int


class Call(NamedTuple):
    """One case: inputs by name, names of the outputs (an input's name: in place), arguments, seed of the operator."""

    inputs: dict[str, Any]
    outputs: list[str]
    arguments: dict[str, Any]
    seed: int | None = None


def main(groups: Any) -> None:
    """Record cases of some groups, functions that return operators with their calls: all, or types behind FOLDER."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    wanted = sys.argv[2:]
    for operator, calls in [case for group in groups for case in group()]:
        if wanted and operator not in wanted:
            continue
        stored: dict[str, Any] = {}
        for number, call in enumerate(calls):
            stored.update({f"case{number:02}/{key}": value for key, value in record(operator, call).items()})
        np.savez_compressed(str(folder / f"{operator}.npz"), **stored)
        print(operator, len(calls))


def record(operator: str, call: Call) -> dict[str, Any]:
    """Return the parts of one case.

    Raises:
        RuntimeError: the runs do not agree, so there is nothing to record.
    """
    runs = [run(operator, call) for _ in range(RUNS)]
    for again in runs[1:]:
        if {key: value.tobytes() for key, value in again.items()} != {k: v.tobytes() for k, v in runs[0].items()}:
            raise RuntimeError(f"{operator} with {call.arguments}: two runs do not give the same")
    return runs[0]


def run(operator: str, call: Call) -> dict[str, Any]:
    """Run a case once in an empty workspace and return its parts."""
    core, workspace, protos = caffe2()
    workspace.ResetWorkspace()
    for name, value in call.inputs.items():
        feed(core, workspace, name, value)
    device = protos.DeviceOption()
    if call.seed is not None:
        device.random_seed = call.seed
    inputs = list(call.inputs)
    definition = core.CreateOperator(operator, inputs, call.outputs, device_option=device, **call.arguments)
    parts: dict[str, Any] = {"op": as_bytes(definition)}
    parts.update(fetched(workspace, "in", inputs))
    workspace.RunOperatorOnce(definition)
    parts.update(fetched(workspace, "out", call.outputs))
    gradient = emitted(core, definition, [f"{name}_grad" for name in call.outputs])
    parts.update({f"grad{i}": as_bytes(made) for i, made in enumerate(gradient)})
    return parts


def feed(core: Any, workspace: Any, name: str, value: Any) -> None:
    """Put a value into a blob."""
    if isinstance(value, Int8):
        whole, given = value.data.dtype == np.int32, {"Y_scale": value.scale, "Y_zero_point": value.zero_point}
        given["values"] = value.data.reshape(-1).tolist() if whole else value.data.tobytes()
        type = f"Int8Given{'Int' if whole else ''}TensorFill"
        workspace.RunOperatorOnce(core.CreateOperator(type, [], [name], shape=list(value.data.shape), **given))
    elif isinstance(value, str) and value == MUTEX:
        workspace.RunOperatorOnce(core.CreateOperator("CreateMutex", [], [name]))
    else:
        workspace.FeedBlob(name, value)


def fetched(workspace: Any, prefix: str, names: Any) -> dict[str, Any]:
    """Return the values of blobs as they are stored, with scale and zero point where there are such."""
    found: dict[str, Any] = {}
    for i, name in enumerate(names):
        try:
            found[f"{prefix}{i}"] = as_array(workspace.FetchBlob(name))
        except TypeError:  # what FetchBlob says of these
            data, *meaning = workspace.FetchInt8Blob(name)
            found.update({f"{prefix}{i}": np.array(data), f"{prefix}{i}_int8": np.array(meaning, np.float64)})
    return found


def emitted(core: Any, definition: Any, given: list[str]) -> list[Any]:
    """Return the OperatorDefs of the gradient; none where Caffe2 has no gradient maker or refuses."""
    try:
        return core.GradientRegistry.GetGradientForOp(definition, given)[0]
    except Exception as error:
        if not str(error).startswith("Exception when creating gradient for"):
            raise
        return []


def as_bytes(message: Any) -> Any:
    """Return a message as it is stored."""
    return np.frombuffer(message.SerializeToString(), np.uint8)


def as_array(value: Any) -> Any:
    """Return a fetched blob as it is stored: text as dtype S."""
    found: Any = np.array(value)
    return found.astype("S") if found.dtype == object else found


def caffe2() -> tuple[Any, ...]:
    """Return the modules `core`, `workspace` and `caffe2_pb2` of the genuine Caffe2."""
    names = "caffe2.python.core", "caffe2.python.workspace", "caffe2.proto.caffe2_pb2"
    return tuple(import_module(name) for name in names)


# -- the cases ---------------------------------------------------------------------------------------------------------


def numbers(*shape: int) -> Any:
    """Return float32 numbers in [0.1, 1.1) of that shape, the same in every run."""
    return (np.random.RandomState(sum(shape)).random_sample(shape) + 0.1).astype(np.float32)


def labels(*values: Any) -> Any:
    """Return int32 labels."""
    return np.array(values, np.int32)


def copies() -> list[tuple[str, list[Call]]]:
    """Operators that hand on what they get."""
    x, i = numbers(2, 3, 5), np.arange(6).reshape(3, 2)
    text = np.array([b"a", b"", b"longer"], object)
    plain = [Call({"X": value}, ["Y"], {}) for value in (x, i, x[:0])]
    return [
        *((type, [*plain, Call({"X": text}, ["Y"], {})]) for type in ("Copy", "CopyFromCPUInput", "EnsureCPUOutput")),
        ("StopGradient", [*plain, Call({"X": x}, ["X"], {})]),
        ("CopyOnDeviceLike", [Call({"X": value, "like": i}, ["Y"], {}) for value in (x, i)]),
        ("Summarize", [Call({"X": value}, ["Y"], {}) for value in (x, numbers(1, 7))]),
    ]


def counters() -> list[tuple[str, list[Call]]]:
    """Operators that count, as their first run."""
    starts = [np.array([0]), np.array([41]), np.array(7)]
    return [
        ("Iter", [Call({}, ["t"], {}), *(Call({"t": start}, ["t"], {}) for start in starts)]),
        ("AtomicIter", [Call({"mutex": MUTEX, "t": start}, ["t"], {}) for start in starts]),
    ]


def losses() -> list[tuple[str, list[Call]]]:
    """Cross entropy with labels; probabilities at and below the clip of 1e-20 too."""
    tiny = np.array([[0, 1, 1e-20], [0.5, 1e-30, 2]], np.float32)
    pairs = [
        (numbers(3, 5), labels(4, 0, 2)),
        (numbers(4, 3), labels([2], [0], [1], [1])),
        (tiny, labels(0, 1)),
        (numbers(0, 3), labels()),
    ]
    backward = [{"X": x, "label": label, "dY": numbers(len(x))} for x, label in pairs]
    return [
        ("LabelCrossEntropy", [Call({"X": x, "label": label}, ["Y"], {}) for x, label in pairs]),
        ("LabelCrossEntropyGradient", [Call(inputs, ["dX"], {}) for inputs in backward]),
    ]


def given_fills() -> list[tuple[str, list[Call]]]:
    """Fills with values that are given, of the element types that have no other recording."""

    def calls(values: list[Any]) -> list[Call]:
        return [
            Call({}, ["Y"], {"shape": [2, 3], "values": values}),
            Call({"X": np.zeros((1, 6))}, ["Y"], {"values": values}),
            Call({"X": np.array([3, 2])}, ["Y"], {"values": values, "input_as_shape": 1}),
        ]

    whole = [1, -2, 3, 0, 32767, -32768]
    return [
        ("GivenTensorIntFill", calls([*whole[:4], 2**31 - 1, -(2**31)])),
        ("GivenTensorInt16Fill", calls(whole)),
        ("GivenTensorStringFill", calls(["a", "", "longer", "b", "c", "d e"])),
    ]


def random_fills() -> list[tuple[str, list[Call]]]:
    """Fills with random numbers, as the first run of an operator with a seed."""

    def calls(shape: list[int], **arguments: Any) -> list[Call]:
        odd = Call({"X": np.zeros((3, 5, 1), np.float32)}, ["Y"], arguments, seed=2**32 - 1)
        by_input = Call({"X": np.array([7, 3])}, ["Y"], {**arguments, "input_as_shape": 1}, seed=0)
        return [Call({}, ["Y"], {**arguments, "shape": shape}, seed=1), odd, by_input]

    return [
        ("UniformFill", [*calls([80]), *calls([5, 7], min=-0.3, max=5e6)]),
        ("UniformIntFill", [*calls([80], min=0, max=9), *calls([5, 7], min=-(2**31), max=2**31 - 1)]),
        ("GaussianFill", [*calls([80]), *calls([5, 7], mean=-1.5, std=3.0)]),
        ("XavierFill", calls([6, 5, 3, 2])),
        ("MSRAFill", calls([6, 5, 3, 2])),
    ]


def signed(*shape: int, seed: int = 0) -> Any:
    """Return standard normal float32 numbers of that shape, the same in every run."""
    return np.random.RandomState(sum(shape) + seed).standard_normal(shape).astype(np.float32)


IMAGE = signed(2, 6, 3, 5)
LAST = np.moveaxis(IMAGE, 1, -1).copy()
SLOPE = signed(2, 6, 3, 5, seed=1)
"""Images (N, C, H, W), the same as (N, H, W, C), and a gradient for either."""

NHWC = {"order": "NHWC"}


def channel_layers() -> list[tuple[str, list[Call]]]:
    """Operators that look across channels or scale them, in both orders."""
    window = {"size": 3, "alpha": 0.5, "beta": 0.75, "bias": 1.5}
    scale, bias, many, one = numbers(6), signed(6), signed(6, seed=1), signed(1)
    even, learnable, grouped = {**window, "size": 4}, {"is_learnable": 1}, {"group": 3}
    y, last = numbers(2, 6, 3, 5), {"X": LAST, "Y": numbers(2, 3, 5, 6), "dY": LAST + 1}
    affine = {"X": IMAGE, "scale": scale, "bias": bias}
    lrn = [Call({"X": IMAGE}, ["Y", "s"], {**window, "size": size}) for size in (1, 3, 4)]
    lrn += [Call({"X": LAST}, ["Y", "s"], {**even, **NHWC}), Call({"X": IMAGE}, ["Y"], {**window, "size": 9})]
    lrn_back = [Call({"X": IMAGE, "Y": y, "dY": SLOPE}, ["dX"], args) for args in (window, even)]
    prelu_back = [Call({"Y": y, "dY": SLOPE, "X": IMAGE, "W": w}, ["dX", "dW"], {}) for w in (many, one)]
    prelu_last = {"Y": last["Y"], "dY": last["dY"], "X": LAST, "W": many}
    gradients = ["dX", "dscale", "dbias"]
    pairs: list[tuple[Any, dict[str, Any]]] = [(IMAGE, {}), (LAST, NHWC)]
    return [
        ("LRN", lrn),
        ("LRNGradient", [*lrn_back, Call(last, ["dX"], {**window, **NHWC})]),
        ("PRelu", [Call({"X": x, "W": w}, ["Y"], order) for x, order in pairs for w in (many, one)]),
        ("PReluGradient", [*prelu_back, Call(prelu_last, ["dX", "dW"], NHWC)]),
        ("ChannelShuffle", [Call({"X": x}, ["Y"], {**grouped, **order}) for x, order in pairs]),
        ("ChannelShuffleGradient", [Call({"dY": x}, ["dX"], {**grouped, **order}) for x, order in pairs]),
        (
            "AffineChannel",
            [
                *(Call(affine, ["Y"], args) for args in ({}, learnable)),
                Call(affine, ["X"], {}),
                Call({**affine, "X": LAST}, ["Y"], NHWC),
            ],
        ),
        (
            "AffineChannelGradient",
            [
                Call({"dY": SLOPE, "scale": scale}, ["dX"], {}),
                Call({"dY": SLOPE, "X": IMAGE, "scale": scale}, gradients, learnable),
                Call({"dY": LAST, "X": LAST + 1, "scale": scale}, gradients, {**learnable, **NHWC}),
            ],
        ),
    ]


def normalizations() -> list[tuple[str, list[Call]]]:
    """Operators that normalize, and their gradients from statistics that do belong to X."""
    vectors, rows = {"scale": numbers(6), "bias": signed(6)}, {"gamma": numbers(90), "beta": signed(90)}
    outputs, gradients = ["Y", "mean", "inv_std"], ["dX", "dscale", "dbias"]
    image, last = {"X": IMAGE, **vectors}, {"X": LAST, **vectors}
    by_image, by_row = moments(IMAGE.reshape(2, 6, 15)), moments(IMAGE.reshape(2, 1, 90))
    row = {"dY": SLOPE, "Y": IMAGE, "mean": by_row["mean"], "std": 1 / by_row["inv_std"], "X": IMAGE}
    affine, grouped = {"elementwise_affine": 1}, {"group": 3}
    by_group = {"dY": SLOPE, **image, **moments(IMAGE.reshape(2, 3, 30))}
    layers = [Call({"X": IMAGE}, ["Y", "mean", "std"], {"axis": axis, "epsilon": 0.01}) for axis in (0, 1, -1)]
    instances = [Call(image, outputs[:count], {"epsilon": 0.01}) for count in (1, 2, 3)]
    return [
        ("LayerNorm", [*layers, Call({"X": IMAGE, **rows}, ["Y", "mean", "std"], affine)]),
        (
            "LayerNormGradient",
            [
                Call(row, ["dX"], {}),
                Call({**row, "gamma": rows["gamma"]}, ["dX", "dgamma", "dbeta"], affine),
            ],
        ),
        ("GroupNorm", [Call(image, outputs, grouped), Call(last, outputs, {**grouped, **NHWC})]),
        ("GroupNormGradient", [Call(by_group, gradients, grouped)]),
        ("InstanceNorm", [*instances, Call(last, outputs, NHWC)]),
        (
            "InstanceNormGradient",
            [
                Call({**image, "dY": SLOPE}, gradients, {}),
                Call({**image, "dY": SLOPE, **by_image}, gradients, {}),
                Call({**last, "dY": np.moveaxis(SLOPE, 1, -1).copy()}, gradients, NHWC),
            ],
        ),
    ]


def moments(x: Any) -> Any:
    """Return mean and inv_std over the last axis."""
    return {"mean": x.mean(-1), "inv_std": (1 / np.sqrt(x.var(-1) + 1e-5)).astype(np.float32)}


def dropouts() -> list[tuple[str, list[Call]]]:
    """Dropout, seeded where it draws."""
    x, mask = signed(7, 9), np.arange(63).reshape(7, 9) % 3 == 0
    drawn = [Call({"X": x}, ["Y", "mask"], {"ratio": r, "is_test": 0}, seed=s) for r, s in ((0.5, 1), (0.3, 7))]
    return [
        ("Dropout", [*drawn, Call({"X": x}, ["Y"], {"is_test": 1}), Call({"X": x}, ["X"], {"is_test": 1})]),
        ("DropoutGrad", [Call({"dY": x, "m": mask}, ["dX"], {"ratio": 0.3}), Call({"dY": x}, ["dX"], {"is_test": 1})]),
    ]


def products() -> list[tuple[str, list[Call]]]:
    """Products of matrices, every transposition; the axes are those for which Caffe2's gradient is right."""
    flags = [(a, b) for a in (0, 1) for b in (0, 1)]
    plain: list[Call] = []
    several: list[Call] = []
    for trans_a, trans_b in flags:
        a, b = signed(*((5, 2) if trans_a else (2, 5))), signed(*((3, 5) if trans_b else (5, 3)))
        arguments = {"trans_a": trans_a, "trans_b": trans_b}
        plain.append(Call({"A": a, "B": b}, ["Y"], arguments))
        several.append(Call({"A": np.stack([a, a + 1, -a]), "B": np.stack([b, b, b - 2])}, ["Y"], arguments))
    like = Call({"A": signed(7, 2, 5), "B": signed(10, 3), "like": signed(3, 7)}, ["Y"], {})
    row = Call({"A": signed(5), "B": signed(5, 3)}, ["Y"], {"axis_a": 0})
    vectors = [
        Call({"A": a, "B": b}, ["Y"], {}) for a, b in ((signed(3), signed(3, seed=1)), (signed(4, 2, 3), signed(3)))
    ]
    return [("MatMul", [*plain, like, row]), ("BatchMatMul", [*several, *vectors])]


def elementwise() -> list[tuple[str, list[Call]]]:
    """Comparisons, logic, and functions of one tensor, where no other recording has more than one element."""
    x, whole, truth = signed(3, 5), np.arange(15).reshape(3, 5) % 4, np.arange(15).reshape(3, 5) % 3 > 0
    under: dict[str, Any] = {"broadcast": 1, "axis": 0}
    dense: dict[str, Any] = {"Y": x, "dY": signed(3, 5, seed=1)}
    pairs = [Call({"A": a, "B": a[::-1].copy()}, ["C"], {}) for a in (x, whole, truth)]
    logic = [*pairs[2:], Call({"A": truth, "B": truth[:, 0].copy()}, ["C"], under)]
    by_n: list[dict[str, Any]] = [{}, {"n": 0.5}]
    by_alpha: list[dict[str, Any]] = [{}, {"alpha": 0.5}]
    by_speed: list[dict[str, Any]] = [{}, {"fast_gelu": 1}]
    return [
        ("NE", [*pairs, Call({"A": x, "B": x[:, 0].copy()}, ["C"], under)]),
        ("Or", logic),
        ("Xor", logic),
        ("ReluN", [Call({"X": x * 5}, ["Y"], args) for args in by_n]),
        ("ReluNGradient", [Call(dense, ["dX"], args) for args in by_n]),
        ("Elu", [Call({"X": x}, ["Y"], args) for args in by_alpha]),
        ("EluGradient", [Call(dense, ["dX"], args) for args in by_alpha]),
        ("Gelu", [Call({"X": x}, ["Y"], args) for args in by_speed]),
        ("GeluGradient", [Call({"dY": dense["dY"], "X": x}, ["dX"], args) for args in by_speed]),
        ("SeluGradient", [Call(dense, ["dX"], args) for args in ({}, {"alpha": 0.5, "scale": 1.5})]),
        *((type, [Call({"X": x}, ["Y"], {})]) for type in ("Sinh", "Cosh")),
        *((f"{type}Gradient", [Call({"dY": dense["dY"], "X": x}, ["dX"], {})]) for type in ("Sinh", "Cosh")),
    ]


def shapes() -> list[tuple[str, list[Call]]]:
    """Operators that move elements: those without recordings elsewhere, and boxes cut out of a tensor."""
    x, y, i = signed(2, 5, 3), signed(2, 4, 3), np.arange(12).reshape(3, 4)
    text, sizes = np.array([[b"a", b"longer"]], object), np.array([3, 2], np.int32)
    starts, ends = np.array([0, 1], np.int32), np.array([-1, 3], np.int32)
    both, last = ["Y", "split_info"], {**NHWC, "add_axis": 0}
    boxes = [([0, 1], [-1, -1]), ([1], [2]), ([-3, 0], [-2, 9])]
    return [
        ("DepthConcat", [Call({"A": x, "B": y}, both, {}), Call({"A": LAST, "B": LAST + 1}, both, last)]),
        ("DepthSplit", [Call({"X": x, "sizes": sizes}, ["A", "B"], {}), Call({"X": LAST}, ["A", "B"], NHWC)]),
        ("FlattenToVec", [Call({"X": value}, ["Y"], {}) for value in (x, i, text, x[:0])]),
        (
            "SliceGradient",
            [
                *(Call({"X": x, "dY": cut(x, *box)}, ["dX"], {"starts": box[0], "ends": box[1]}) for box in boxes),
                Call({"X": i, "starts": starts, "ends": ends, "dY": i[:, 1:3].copy()}, ["dX"], {}),
            ],
        ),
    ]


def cut(x: Any, starts: list[int], ends: list[int]) -> Any:
    """Return what Slice cuts out of x: numbers below 0 count from behind the last element."""

    def place(axis: int, number: int) -> int:
        return number if number >= 0 else number + 1 + int(x.shape[axis])

    return x[tuple(slice(place(i, start), place(i, ends[i])) for i, start in enumerate(starts))].copy()


def reductions() -> list[tuple[str, list[Call]]]:
    """Reductions over axes, of numbers of which several are the largest or smallest, and their gradients."""
    x = halves(2, 3, 5)
    arguments: list[dict[str, Any]] = [{}, {"axes": [1]}, {"axes": [-1, 0], "keepdims": 0}]
    slopes = [signed(1, 1, 1), signed(2, 1, 5), signed(3)]
    reduced: list[Any] = [(None, True), (1, True), ((0, 2), False)]
    found: list[tuple[str, list[Call]]] = []
    for name in ("Sum", "Mean", "Max", "Min", "L1", "L2"):
        of_x = [reduction(name, x, *where) for where in reduced]
        back: list[dict[str, Any]] = [{"dY": slopes[i], "X": x, "Y": y} for i, y in enumerate(of_x)]
        found.append((f"Reduce{name}", [Call({"X": x}, ["Y"], args) for args in arguments]))
        found.append((f"Reduce{name}Gradient", [Call(back[i], ["dX"], args) for i, args in enumerate(arguments)]))
    sums = [Call({"X": x}, ["Y"], args) for args in ({}, {"average": 1})]
    return [*found, ("SumElements", sums), ("SumSqrElements", sums)]


def halves(*shape: int) -> Any:
    """Return few different float32 numbers, none of them 0."""
    return (signed(*shape) * 2).round() + np.float32(0.5)


def reduction(name: str, x: Any, axis: Any, keepdims: bool) -> Any:
    """Return the reduction of x in float32."""
    if name == "L1":
        return np.sum(np.abs(x), axis=axis, keepdims=keepdims)
    if name == "L2":
        return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))
    return getattr(x, name.lower())(axis=axis, keepdims=keepdims)


def transposed_convolutions() -> list[tuple[str, list[Call]]]:
    """Transposed convolutions in both orders, with pads, `adj` and groups, and their gradients."""
    step = {"kernels": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "adjs": [1, 0], "group": 2}
    alone = {"kernel": 2}
    x, w, b = signed(2, 4, 3, 5), signed(4, 3, 3, 2), signed(6)
    last = {"X": np.moveaxis(x, 1, -1).copy(), "W": np.moveaxis(w, 1, -1).copy(), "b": b}
    small = {"X": x, "W": signed(4, 3, 2, 2)}
    dy = signed(2, 6, 7, 13)
    back, back_last = {"X": x, "W": w, "dY": dy}, {"X": last["X"], "W": last["W"], "dY": np.moveaxis(dy, 1, -1).copy()}
    all_three = ["dW", "db", "dX"]
    return [
        (
            "ConvTranspose",
            [
                Call({"X": x, "W": w, "b": b}, ["Y"], step),
                Call(last, ["Y"], {**step, **NHWC}),
                Call(small, ["Y"], alone),
                Call(small, ["Y"], {**alone, "stride": 2, "adj": 1, "no_gradient_to_input": 1}),
                Call(small, ["Y"], {**alone, "stride": 2, "legacy_pad": 2}),
            ],
        ),
        (
            "ConvTransposeGradient",
            [
                Call(back, all_three, step),
                Call(back_last, all_three, {**step, **NHWC}),
                Call({**small, "dY": signed(2, 3, 4, 6)}, ["dW", "dX"], {**alone, "no_bias": 1}),
                Call({**small, "dY": signed(2, 3, 4, 6)}, ["dW"], {"no_bias": 1, **alone, "no_gradient_to_input": 1}),
            ],
        ),
    ]


def resizes() -> list[tuple[str, list[Call]]]:
    """Images in another size, by arguments and by an input, and their gradients."""
    scales = np.array([1.5, 2.25], np.float32)
    one = {"height_scale": 2.5, "width_scale": 0.75}
    found: list[tuple[str, list[Call]]] = []
    for name in ("ResizeNearest", "UpsampleBilinear"):
        more = [({"X": LAST, "scales": scales}, dict(NHWC), (2, 4, 11, 6))] if name == "ResizeNearest" else []
        both: Any = {"X": IMAGE, "scales": scales}
        cases: list[Any] = [({"X": IMAGE}, one, (2, 6, 7, 3)), (both, {}, (2, 6, 4, 11)), *more]
        found.append((name, [Call(inputs, ["Y"], args) for inputs, args, _ in cases]))
        back = [Call({"dY": signed(*shape), **inputs}, ["dX"], args) for inputs, args, shape in cases]
        found.append((f"{name}Gradient", back))
    return found


GROUPS = (
    copies,
    counters,
    losses,
    given_fills,
    random_fills,
    channel_layers,
    normalizations,
    dropouts,
    products,
    elementwise,
    shapes,
    reductions,
    transposed_convolutions,
    resizes,
)
"""All cases, by what they are about."""

if __name__ == "__main__":
    main(GROUPS)

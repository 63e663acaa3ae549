r"""Record the nets that Caffe2's training modules make; run by the Python that has the genuine Caffe2.

    PYTHONHASHSEED=0 PYTHON_OF_CAFFE2 tools/record_training_nets.py tests/data/training/cases.txt \
        tests/data/training/nets.json.gz

and the same for `tests/data/seq2seq`.

Of each case (see the file) all nets that it leaves in its names, an operator a line, and the value `r`. The seed of
hashes is given because the nets of attention depend on it there: Caffe2 walks through a set of names.
"""

from __future__ import annotations

import gzip
import json
import logging
import operator
import re
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any, cast


def read_cases(text: str) -> dict[str, str]:
    """Return name and code of each case."""
    parts = re.split(r"^== (\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2]))  # noqa: B905 -- Python 3.8


def value_of(argument: Any) -> Any:
    """Return what an argument holds, with its type; nets as lines."""
    for field in ("i", "f", "s", "n"):
        if argument.HasField(field):
            value = getattr(argument, field)
            return lines(value) if field == "n" else value.decode("latin-1") if field == "s" else _plain(value)
    for field in ("ints", "floats", "strings", "nets"):
        values = getattr(argument, field)
        if len(values):
            return [
                lines(v) if field == "nets" else v.decode("latin-1") if field == "strings" else _plain(v)
                for v in values
            ]
    return []


def _plain(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def line(op: Any) -> list[Any]:
    """Return an operator as plain values: type, inputs, outputs, arguments, then the rest where there is any."""
    rest: dict[str, Any] = {
        field: getattr(op, field) for field in ("name", "engine", "debug_info") if getattr(op, field)
    }
    if len(op.control_input):
        rest["control_input"] = list(op.control_input)
    if op.HasField("device_option"):
        option = op.device_option
        rest["device"] = [option.device_type, option.device_id, option.node_name, list(option.extra_info)]
    if op.is_gradient_op:
        rest["gradient"] = True
    arguments: list[Any] = [[argument.name, value_of(argument)] for argument in op.arg]
    if op.type == "Do":  # binds blobs in the order of a set
        values = dict(arguments)
        bound = sorted(zip(values["inner_blobs"], values["outer_blobs_idx"]))  # noqa: B905 -- Python 3.8
        arguments = [[name, values[name]] for name in values if name not in ("inner_blobs", "outer_blobs_idx")]
        arguments.append(["bound", [list(pair) for pair in bound]])
    return [op.type, " ".join(op.input), " ".join(op.output), arguments] + ([rest] if rest else [])


def lines(net: Any) -> dict[str, Any]:
    """Return a net as plain values."""
    made: dict[str, Any] = {"ops": [line(op) for op in net.op], "in": list(net.external_input)}
    if len(net.external_output):
        made["out"] = list(net.external_output)
    if len(net.arg):
        made["arg"] = [[argument.name, value_of(argument)] for argument in net.arg]
    return made


def err(act: Any) -> Any:
    """Return what `act` returns, or the name of what it raises."""
    try:
        return act()
    except Exception as error:
        return type(error).__name__


def plain(value: Any) -> Any:
    """Return a value as JSON keeps it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in cast("list[Any]", value)]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


MODULES = """core brew model_helper cnn optimizer optimizer_context regularizer schema layer_model_helper
    rnn_cell gru_cell attention crf crf_predict""".split()
NETS = ("resnet", "shufflenet")
SEQ2SEQ = ("seq2seq_util", "beam_search", "train", "translate")
MODELING = ("initializers", "parameter_info", "parameter_sharing")
MODIFIERS = {
    "gradient_clipping": "GradientClipping",
    "net_modifier": "NetModifier",
    "compute_norm_for_blobs": "ComputeNormForBlobs",
    "compute_statistics_for_blobs": "ComputeStatisticsForBlobs",
    "compute_histogram_for_blobs": "ComputeHistogramForBlobs",
    "get_entry_from_blobs": "GetEntryFromBlobs",
}


def names(caffe2: Any) -> dict[str, Any]:
    """Return what cases use; `caffe2(name)` imports a module of the old names."""
    import numpy as np

    found: dict[str, Any] = {name: caffe2(name) for name in MODULES}
    found.update((name, caffe2("modeling." + name)) for name in MODELING)
    found.update((name, caffe2("models." + name)) for name in NETS)
    found.update((name, caffe2("models.seq2seq." + name)) for name in SEQ2SEQ)
    found.update((cls, getattr(caffe2("modeling." + module), cls)) for module, cls in MODIFIERS.items())
    found.update(S=caffe2("models.seq2seq.seq2seq_model_helper").Seq2SeqModelHelper, units=units, params=params)
    found.update(np=np, pb=__import__("caffe2.proto.caffe2_pb2", fromlist=["NetDef"]), err=err, aux=aux, clip=clip)
    found.update(M=found["model_helper"].ModelHelper, W=SimpleNamespace, modified=modified, recorded=recorded)
    for net in (train_net, sparse_net, half_net, trained, translated):
        found[net.__name__] = partial(net, SimpleNamespace(**found))
    found.update(layered=partial(layered, SimpleNamespace(**found)), r=None, r_seen=[])
    return found


def layered(given: Any, name: str, columns: dict[str, Any], add: Any) -> list[Any]:
    """Add a layer to a model of columns; returns its nets that train, test and predict, and what it says of itself.

    A column is a record, or the type of a scalar.
    """
    fields = [
        (key, column if isinstance(column, given.schema.Field) else given.schema.Scalar(column))
        for key, column in sorted(columns.items())
    ]
    record = given.schema.NewRecord(given.core.Net(name + "_record"), given.schema.Struct(*fields))
    model = given.layer_model_helper.LayerModelHelper(name, record, given.schema.Struct())
    output = add(model, model.input_feature_schema)
    layer = model.layers[-1]
    nets: list[Any] = []
    for kind in ("train", "eval", ""):
        nets.append(given.core.Net(name + "_" + (kind or "predict")))
        getattr(layer, "add_" + (kind and kind + "_") + "ops")(nets[-1])
    constants = sorted(str(key) for key in model.global_constants)
    said = [str(output.field_types()), str(output()), [str(one) for one in layer.params], sorted(map(str, layer.tags))]
    return [model, *nets, [*said, constants]]


def train_net(given: Any, m: Any, prefix: str = "") -> Any:
    """Add a net that can be trained, with its gradients."""
    given.brew.fc(m, "x", "h", 4, 3)
    given.brew.relu(m, "h", "h")
    given.brew.fc(m, "h", "y", 3, 2)
    m.net.SoftmaxWithLoss(["y", "label"], ["soft", "loss"])
    return m.AddGradientOperators([given.core.BlobReference(prefix + "loss")])


def sparse_net(given: Any, m: Any) -> Any:
    """Add one with a parameter whose gradient is one of rows, such as a Gather gives."""
    fill = given.initializers.Initializer("GaussianFill")
    table = m.create_param("table", [7, 3], fill, tags="WEIGHT")
    given.brew.fc(m, "rows", "y", 3, 2)
    m.net.AveragedLoss("y", "loss")
    m.AddGradientOperators(["loss"])
    rows = given.core.GradientSlice(given.core.BlobReference("i"), given.core.BlobReference("rows_grad"))
    m.get_param_info(table).grad = m.grad_map[table] = rows
    m.param_to_grad = m.get_param_to_grad(m.params)
    return m.grad_map


def half_net(given: Any, m: Any) -> Any:
    """Add one whose parameters are float16."""
    fill = given.initializers.PseudoFP16Initializer
    given.brew.fc(m, "x", "h", 4, 3, WeightInitializer=fill, BiasInitializer=fill)
    m.net.AveragedLoss("h", "loss")
    return m.AddGradientOperators(["loss"])


def aux(optimizer: Any) -> list[list[str]]:
    """Return the names of what an optimizer keeps."""
    return [sorted(str(blob) for blob in part) for part in optimizer.get_auxiliary_parameters()]


def clip(m: Any, gradients: Any, modifier: Any) -> Any:
    """Change the net of a model."""
    return modifier(m.net, m.param_init_net, grad_map=gradients)


def modified(m: Any, modifier: Any, gradients: Any = None) -> None:
    """Change the net of a model, without its record of outputs."""
    modifier(m.net, m.param_init_net, gradients)


def recorded(m: Any, modifier: Any) -> Any:
    """Change the net of a model with its record of outputs; return that."""
    modifier(m.net, m.param_init_net, None, modify_output_record=True)
    record = m.net.output_record()
    return [record.field_names(), [str(blob) for blob in record.field_blobs()]]


def units(*sizes: int, **rest: Any) -> list[dict[str, Any]]:
    """Return what layers of an encoder or a decoder are made from."""
    return [dict(num_units=size, **rest) for size in sizes]


def params(encoder: Any = None, decoder: Any = None, both: bool = False, **rest: Any) -> dict[str, Any]:
    """Return what a model of sentences is made from."""
    made: dict[str, Any] = {
        "attention": "regular",
        "decoder_layer_configs": units(5) if decoder is None else decoder,
        "encoder_type": {
            "encoder_layer_configs": units(3) if encoder is None else encoder,
            "use_bidirectional_encoder": both,
        },
        "encoder_embedding_size": 4,
        "decoder_embedding_size": 6,
        "decoder_softmax_size": None,
        "batch_size": 7,
        "optimizer_params": {"learning_rate": 0.25},
        "max_gradient_norm": 2.0,
    }
    made.update(rest)
    return made


def trained(given: Any, encoder: Any = None, decoder: Any = None, init_params: bool = True, **rest: Any) -> list[Any]:
    """Return the model that trains on sentences, and the net that tells its loss; they do not know the time."""
    given.train.logger.setLevel(logging.ERROR)
    model = given.train.Seq2SeqModelCaffe2(params(encoder, decoder, **rest), 11, 12, 0)
    model._build_model(init_params)
    for op in model.model.param_init_net.Proto().op:
        if op.output[0].endswith("start_time"):
            op.arg[1].f = 0.0
    return [model.model, model.forward_net]


def translated(given: Any, *models: dict[str, Any], **rest: Any) -> list[Any]:
    """Return the model that an ensemble translates with, and what its decoder says of itself."""
    given.translate.logger.setLevel(logging.ERROR)
    given.translate.workspace.ResetWorkspace()
    words = [{number: str(number) for number in range(size)} for size in (11, 12)]
    given_models = [dict(source_vocab=words[0], target_vocab=words[1], model_params=one) for one in models]
    decoding = dict({"beam_size": 3, "word_reward": 0.5, "unk_reward": -1.0}, **rest)
    decoder = given.translate.Seq2SeqModelCaffe2EnsembleDecoder(
        {"ensemble_models": given_models, "decoding_params": decoding}
    )
    rewards = given.translate.workspace.FetchBlob("word_rewards").tolist()
    said = [decoder.decoder_scope_names, decoder.source_vocab_size, decoder.target_vocab_size, rewards]
    given.translate.workspace.ResetWorkspace()
    return [decoder.model, said]


KEPT = ("params", "weights", "biases", "_computed_params", "_parameters_info")
LEFT_OUT = "PackedFC FC_Prune FC_Sparse FC_Decomp SWA EMA MaskedAdagrad ImageInput VideoInput".split()
"""Operators of Caffe2 that the wheel was built without; nets with them can be made all the same."""


def run_case(code: str, caffe2: Any) -> dict[str, Any]:
    """Return the nets that a case leaves, by name, and its value."""
    given = names(caffe2)
    before = set(given)
    given["optimizer"]._optimizer_instance_count.clear()
    exec(code, given)
    made: dict[str, Any] = {}
    for name in sorted(set(given) - before | {"r"}):
        value = given[name]
        if isinstance(value, given["model_helper"].ModelHelper):
            made[name] = {"net": lines(value.net.Proto()), "init": lines(value.param_init_net.Proto())}
            made[name].update((key, [str(one) for one in getattr(value, key)]) for key in KEPT)
        elif isinstance(value, given["core"].Net):
            net = lines(value.Proto())  # its inputs and outputs come in the order of a set
            made[name] = {key: net[key] if key == "ops" else sorted(set(net[key])) for key in net}
    return {"nets": made, "r": plain(given["r"])}


def imported(name: str) -> Any:
    """Return a module of the old names."""
    module = __import__("caffe2.python." + name, fromlist=["x"])
    return sys.modules.get("caffe2.python." + name, module)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    __import__("numpy").asscalar = operator.methodcaller("item")  # NumPy of the time had it, and lars asks for it
    with open(sys.argv[1]) as file:
        cases = read_cases(file.read())
    imported("core")._REGISTERED_OPERATORS.update(LEFT_OUT)
    results: dict[str, Any] = {}
    for case, code in cases.items():
        try:
            results[case] = run_case(code, imported)
        except Exception as error:
            sys.stderr.write(f"{case}: {type(error).__name__}: {error}\n")
    with open(sys.argv[2], "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(json.dumps(results).encode())

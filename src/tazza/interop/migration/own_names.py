"""What the old names are called in tazza: one table, which `tazza migrate` and the pages about the old names tell.

Most helpers of `brew` are layers of the same name, operators are added by their types, and messages are called alike:
these follow from what there is. The table has the rest.
"""

from __future__ import annotations

import functools

from tazza import proto
from tazza.data_class import dataclass
from tazza.models import LAYERS
from tazza.operator import SCHEMAS

PYTHON, PROTO = "caffe2.python.", "caffe2.proto.caffe2_pb2."
BREW = "brew."


@dataclass(frozen=True, slots=True)
class Own:
    """What an old name is in tazza, by its path; and what differs, where that is not plain."""

    path: str
    note: str = ""


OWN = {
    "core.Net": Own("tazza.Net"),
    "core.Net.Proto": Own("tazza.Net.proto", "an attribute"),
    "core.Net.Name": Own("tazza.Net.name", "an attribute"),
    "core.Net.AddGradientOperators": Own("tazza.Net.add_gradients", "gives names as texts"),
    "core.Net.AddExternalInput": Own("tazza.Net.add_external_input"),
    "core.Net.AddExternalOutput": Own("tazza.Net.add_external_output"),
    "core.Net.AppendNet": Own("tazza.Net.append"),
    "core.Net.Clone": Own("tazza.Net.clone"),
    "core.Net.NextName": Own("tazza.Net.next_name"),
    "core.Net.Python": Own(
        "tazza.ops.control.python_function.register_python", "gives a token for the operator Python"
    ),
    "core.BlobReference": Own("tazza.BlobReference", "a text"),
    "core.CreateOperator": Own("tazza.operator.operator_def"),
    "core.DataType": Own("tazza.DataType"),
    "core.DeviceOption": Own("tazza.device_option", "takes a place, not a number"),
    "core.DeviceScope": Own("tazza.device_scope"),
    "core.NameScope": Own("tazza.name_scope"),
    "core.GlobalInit": Own("tazza.global_init"),
    "core.GradientRegistry.RegisterGradient": Own("tazza.operator.register_gradient"),
    "core.Plan": Own("tazza.proto.PlanDef", "a message"),
    "core.execution_step": Own("tazza.proto.ExecutionStep", "a message"),
    "workspace.FeedBlob": Own("tazza.Workspace.feed"),
    "workspace.FetchBlob": Own("tazza.Workspace.fetch"),
    "workspace.HasBlob": Own("tazza.Workspace.has_blob"),
    "workspace.Blobs": Own("tazza.Workspace.blob_names"),
    "workspace.CreateBlob": Own("tazza.Workspace.create_blob"),
    "workspace.ResetBlob": Own("tazza.Workspace.reset_blob"),
    "workspace.CreateNet": Own("tazza.Workspace.create_net", "takes a NetDef, `net.proto`"),
    "workspace.RunNet": Own("tazza.Workspace.run_net"),
    "workspace.RunNetOnce": Own("tazza.Workspace.run_net_once", "takes a NetDef, `net.proto`"),
    "workspace.RunOperatorOnce": Own("tazza.Workspace.run_operator"),
    "workspace.RunPlan": Own("tazza.procedure.run_procedure"),
    "workspace.ResetWorkspace": Own("tazza.Workspace.reset", "or a new `tazza.Workspace()`"),
    "workspace.SwitchWorkspace": Own("tazza.Workspace", "an object of your own each"),
    "workspace.Predictor": Own("tazza.load", "takes files, and compiles"),
    "workspace.BenchmarkNet": Own("tazza.observers.benchmark.benchmark"),
    "workspace.ApplyTransform": Own("tazza.graph.transform.TRANSFORMS"),
    "workspace.InferShapesAndTypes": Own("tazza.graph.inference.infer_net"),
    "model_helper.ModelHelper": Own("tazza.Model"),
    "model_helper.ModelHelper.AddGradientOperators": Own("tazza.Model.add_gradients"),
    "model_helper.ModelHelper.GetParams": Own("tazza.Model.parameter_blobs"),
    "model_helper.ExtractPredictorNet": Own("tazza.export_nets"),
    "cnn.CNNModelHelper": Own("tazza.Model", "its layers have the names of `brew`"),
    "brew": Own("tazza.models.layers"),
    "brew.add_weight_decay": Own("tazza.models.optimizer.add_weight_decay", "or the optimizer's `weight_decay`"),
    "optimizer.add_weight_decay": Own("tazza.models.optimizer.add_weight_decay", "or the optimizer's `weight_decay`"),
    "optimizer.build_sgd": Own("tazza.sgd"),
    "optimizer.build_adam": Own("tazza.models.adam"),
    "optimizer.build_adagrad": Own("tazza.models.adagrad"),
    "rnn_cell.LSTM": Own("tazza.models.recurrent.lstm"),
    "recurrent.recurrent_net": Own("tazza.models.recurrent.recurrent_net"),
    "predictor.predictor_exporter.save_to_db": Own("tazza.save_predictor"),
    "predictor.predictor_exporter.load_from_db": Own("tazza.load"),
    "predictor.mobile_exporter.Export": Own("tazza.export_nets", "`tazza.save_nets` writes them"),
    "scope.NameScope": Own("tazza.name_scope"),
    "scope.DeviceScope": Own("tazza.device_scope"),
    "dyndep.InitOpsLibrary": Own("tazza.runtime.modules.load_module", "of modules made for tazza"),
}
"""Old name, without `caffe2.python.` -> tazza's own."""

ON_CPU = 'what was saved for one runs with `device="cpu"`'
NOTES = {
    "CUDA": f"runs where NVIDIA's driver is, operators that docs/cuda.md lists; else {ON_CPU}",
    "HIP": f"there are no devices of AMD; {ON_CPU}",
}
"""What to know of values of messages."""


def own_name(path: str) -> Own | None:
    """Return what an old path is in tazza, or None where the old name is the only one.

    >>> own_name("caffe2.python.workspace.FeedBlob").path, own_name("caffe2.python.brew.max_pool").path
    ('tazza.Workspace.feed', 'tazza.Model.max_pool')
    >>> own_name("caffe2.python.core.DataType.FLOAT").path
    'tazza.DataType.FLOAT'
    """
    if path.startswith(PROTO):
        name = path.removeprefix(PROTO)
        if name in NOTES:
            return Own("tazza.tensor.CUDAPlace", NOTES[name])
        return Own(f"tazza.proto.{name}") if hasattr(proto, name) else None
    old = path.removeprefix(PYTHON)
    if old in OWN:
        return OWN[old]
    outer, _, name = old.rpartition(".")
    if name.isupper() and outer in OWN:
        return Own(f"{OWN[outer].path}.{name}")
    helper = old.removeprefix(BREW)
    return Own(f"tazza.Model.{helper}") if old != helper and helper in LAYERS else None


def own_operator(type: str) -> Own | None:
    """Return how an operator is added by tazza's own names: by a layer of its name, or by its type.

    >>> own_operator("MaxPool").path, own_operator("Gather")
    ('tazza.Model.max_pool', Own(path='tazza.Net.add', note='"Gather"'))
    """
    if SCHEMAS.get(type) is None:
        return None
    layer = _layers().get(type.lower())
    return Own("tazza.Net.add", f'"{type}"') if layer is None else Own(f"tazza.Model.{layer}")


@functools.cache
def _layers() -> dict[str, str]:
    """Return the layers by what their names and those of operators have in common."""
    return {name.replace("_", ""): name for name in LAYERS}

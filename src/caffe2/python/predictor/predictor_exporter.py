"""Predictor files: a net that predicts, nets that prepare it, and the parameters, in one database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from caffe2.proto import caffe2_pb2, metanet_pb2
from caffe2.python import core, scope, workspace
from caffe2.python.predictor import predictor_py_utils as utils
from caffe2.python.predictor import serde
from caffe2.python.predictor_constants import predictor_constants


class _Fields(NamedTuple):
    predict_net: Any
    parameters: list[str]
    inputs: list[str]
    outputs: list[str]
    shapes: Mapping[str, Any]
    name: str
    extra_init_net: Any
    global_init_net: Any
    net_type: str | None
    num_workers: int | None
    trainer_prefix: str | None


class PredictorExportMeta(_Fields):
    """What of a net is exported, and under which names."""

    def __new__(
        cls,
        predict_net: Any,
        parameters: Any,
        inputs: Any,
        outputs: Any,
        shapes: Any = None,
        name: str = "",
        extra_init_net: Any = None,
        global_init_net: Any = None,
        net_type: str | None = None,
        num_workers: int | None = None,
        trainer_prefix: str | None = None,
    ) -> PredictorExportMeta:
        """Note names of blobs; inputs are named once, and parameters are neither inputs nor outputs."""
        taken, made, given = (list(map(str, names)) for names in (inputs, outputs, parameters))
        assert len(set(taken)) == len(taken), f"an input is named twice: {taken}"
        for role, names in (("inputs", taken), ("outputs", made)):
            both = sorted(set(given).intersection(names))
            assert not both, f"parameters are among the {role}: {both}"
        net = predict_net.Proto() if isinstance(predict_net, (core.Net, core.Plan)) else predict_net
        assert isinstance(net, (caffe2_pb2.NetDef, caffe2_pb2.PlanDef)), f"a {type(net).__name__} is no net"
        known: Mapping[str, Any] = {} if shapes is None else shapes
        rest = (name, extra_init_net, global_init_net, net_type, num_workers, trainer_prefix)
        return super().__new__(cls, net, given, taken, made, known, *rest)

    def inputs_name(self) -> str:
        """Return the name of the list of inputs."""
        return utils.get_comp_name(predictor_constants.INPUTS_BLOB_TYPE, self.name)

    def outputs_name(self) -> str:
        """Return the name of the list of outputs."""
        return utils.get_comp_name(predictor_constants.OUTPUTS_BLOB_TYPE, self.name)

    def parameters_name(self) -> str:
        """Return the name of the list of parameters."""
        return utils.get_comp_name(predictor_constants.PARAMETERS_BLOB_TYPE, self.name)

    def global_init_name(self) -> str:
        """Return the name of the net that loads parameters."""
        return utils.get_comp_name(predictor_constants.GLOBAL_INIT_NET_TYPE, self.name)

    def predict_init_name(self) -> str:
        """Return the name of the net that makes inputs and outputs."""
        return utils.get_comp_name(predictor_constants.PREDICT_INIT_NET_TYPE, self.name)

    def predict_net_name(self) -> str:
        """Return the name of the net that predicts."""
        return utils.get_comp_name(predictor_constants.PREDICT_NET_TYPE, self.name)

    def train_init_plan_name(self) -> str:
        """Return the name of the plan that prepares training."""
        return self._of_trainer(predictor_constants.TRAIN_INIT_PLAN_TYPE)

    def train_plan_name(self) -> str:
        """Return the name of the plan that trains."""
        return self._of_trainer(predictor_constants.TRAIN_PLAN_TYPE)

    def _of_trainer(self, role: str) -> str:
        named = utils.get_comp_name(role, self.name)
        return f"{self.trainer_prefix}_{named}" if self.trainer_prefix else named


def get_predictor_exporter_helper(submodelNetName: str) -> PredictorExportMeta:
    """Return what knows the names that a predictor of this name has."""
    return PredictorExportMeta(core.Net(submodelNetName), [], [], [], name=submodelNetName)


def prepare_prediction_net(filename: str, db_type: str, device_option: Any = None) -> Any:
    """Load a predictor file into the workspace, and return its net, created."""
    meta = load_from_db(filename, db_type, device_option)
    for role in (predictor_constants.GLOBAL_INIT_NET_TYPE, predictor_constants.PREDICT_INIT_NET_TYPE):
        workspace.RunNetOnce(utils.GetNet(meta, role))
    net = core.Net(utils.GetNet(meta, predictor_constants.PREDICT_NET_TYPE))
    workspace.CreateNet(net)
    return net


def _global_init_net(meta: PredictorExportMeta, db_type: str | None) -> Any:
    net = core.Net("global-init")
    if db_type != "manifold_db":  # which loads by itself
        net.Load([predictor_constants.PREDICTOR_DBREADER], meta.parameters)
        net.Proto().external_input.extend([predictor_constants.PREDICTOR_DBREADER])
        net.Proto().external_output.extend(meta.parameters)
    if meta.global_init_net:
        net.AppendNet(meta.global_init_net)
    utils.AddModelIdArg(meta, net.Proto())
    return net.Proto()


def get_meta_net_def(predictor_export_meta: PredictorExportMeta, ws: Any = None, db_type: str | None = None) -> Any:
    """Return the table of contents of a predictor file: nets and blobs by role."""
    meta, home = predictor_export_meta, workspace.C.Workspace.current if ws is None else ws
    made = metanet_pb2.MetaNetDef()
    utils.AddNet(made, meta.predict_init_name(), utils.create_predict_init_net(home, meta))
    utils.AddNet(made, meta.global_init_name(), _global_init_net(meta, db_type))
    utils.AddNet(made, meta.predict_net_name(), utils.create_predict_net(meta))
    utils.AddBlobs(made, meta.parameters_name(), meta.parameters)
    utils.AddBlobs(made, meta.inputs_name(), meta.inputs)
    utils.AddBlobs(made, meta.outputs_name(), meta.outputs)
    return made


def set_model_info(meta_net_def: Any, project_str: str, model_class_str: str, version: str) -> None:
    """Note project, class and version of a model."""
    assert isinstance(meta_net_def, metanet_pb2.MetaNetDef)
    info = meta_net_def.modelInfo
    info.project, info.modelClass, info.version = project_str, model_class_str, version


def save_to_db(
    db_type: str,
    db_destination: str,
    predictor_export_meta: PredictorExportMeta,
    use_ideep: bool = False,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Write a predictor file with the parameters that are in the workspace."""
    del args
    meta = get_meta_net_def(predictor_export_meta, db_type=db_type)
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
        workspace.FeedBlob(predictor_constants.META_NET_DEF, serde.serialize_protobuf_struct(meta))
    op = core.CreateOperator(
        "Save",
        [predictor_constants.META_NET_DEF, *predictor_export_meta.parameters],
        [],
        device_option=core.DeviceOption(caffe2_pb2.IDEEP if use_ideep else caffe2_pb2.CPU),
        absolute_path=True,
        db=db_destination,
        db_type=db_type,
        **kwargs,
    )
    workspace.RunOperatorOnce(op)


def load_from_db(filename: str, db_type: str, device_option: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the table of contents of a predictor file; its net of the role GLOBAL_INIT loads the parameters."""
    del args, kwargs
    reader, record = map(core.BlobReference, (predictor_constants.PREDICTOR_DBREADER, predictor_constants.META_NET_DEF))
    workspace.RunOperatorOnce(core.CreateOperator("CreateDB", [], [reader], db=filename, db_type=db_type))
    workspace.RunOperatorOnce(core.CreateOperator("Load", [reader], [record]))
    made = serde.deserialize_protobuf_struct(workspace.FetchBlob(record), metanet_pb2.MetaNetDef)
    device = scope.CurrentDeviceScope() if device_option is None else device_option
    if device is not None:
        for op in (op for one in made.nets for op in one.value.op):
            op.device_option.CopyFrom(device)
    return made

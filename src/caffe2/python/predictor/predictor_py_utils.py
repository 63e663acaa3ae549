"""What a `MetaNetDef` lists by role, and the nets that an exported predictor has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from caffe2.python import core, scope


def create_predict_net(predictor_export_meta: Any) -> Any:
    """Return the net that predicts, with inputs, then parameters, as what it reads."""
    meta = predictor_export_meta
    made = core.Net(meta.predict_net.name if meta.predict_net.name else "predict").Proto()
    made.op.extend(meta.predict_net.op)
    made.partition_info.extend(meta.predict_net.partition_info)
    made.external_input.extend([*meta.inputs, *meta.parameters])
    made.external_output.extend(meta.outputs)
    made.arg.extend(meta.predict_net.arg)
    if meta.net_type is not None:
        made.type = meta.net_type
    if meta.num_workers is not None:
        made.num_workers = meta.num_workers
    return made


def create_predict_init_net(ws: Any, predictor_export_meta: Any) -> Any:
    """Return the net that makes inputs and outputs of zeros beforehand; shapes nobody gave are those in `ws`."""
    meta = predictor_export_meta
    net = core.Net("predict-init")
    around = [*meta.inputs, *meta.outputs]
    with scope.EmptyDeviceScope():  # where they lie is up to who runs the net
        for name in around:
            net.ConstantFill([], name, shape=_shape(ws, meta.shapes, name), value=0.0)
    net.Proto().external_input.extend(around)
    if meta.extra_init_net:
        net.AppendNet(meta.extra_init_net)
    AddModelIdArg(meta, net.Proto())
    return net.Proto()


def _shape(ws: Any, shapes: Any, name: str) -> Any:
    given = shapes.get(name)
    if given is not None:
        return given
    if name not in ws.blobs:
        raise Exception(f"the shape of {name!r} is neither given nor in the workspace: {list(ws.blobs)}")
    return ws.blobs[name].fetch().shape


def get_comp_name(string: str, name: str) -> str:
    """Return the name of a role in a file with named predictors."""
    return f"{string}_{name}" if name else string


def _value(field: Iterable[Any], key: str) -> Any:
    return next((one.value for one in field if one.key == key), None)


def GetPlan(meta_net_def: Any, key: str) -> Any:
    """Return the plan of a role, or None."""
    return _value(meta_net_def.plans, key)


def GetPlanOriginal(meta_net_def: Any, key: str) -> Any:
    """Return the plan of a role, or None."""
    return _value(meta_net_def.plans, key)


def GetBlobs(meta_net_def: Any, key: str) -> Any:
    """Return the blobs of a role, none where it is not listed."""
    found = _value(meta_net_def.blobs, key)
    return [] if found is None else found


def GetBlobsByTypePrefix(meta_net_def: Any, blob_type_prefix: str) -> list[str]:
    """Return the blobs of all roles whose names begin so, each once, in the order of the file."""
    listed = [one.value for one in meta_net_def.blobs if one.key.startswith(blob_type_prefix)]
    return list(dict.fromkeys(name for names in listed for name in names))


def GetNet(meta_net_def: Any, key: str) -> Any:
    """Return the net of a role, or None."""
    return _value(meta_net_def.nets, key)


def GetNetOriginal(meta_net_def: Any, key: str) -> Any:
    """Return the net of a role, or None."""
    return _value(meta_net_def.nets, key)


def GetApplicationSpecificInfo(meta_net_def: Any, key: str) -> Any:
    """Return what an application noted under a key, or None."""
    return _value(meta_net_def.applicationSpecificInfo, key)


def AddBlobs(meta_net_def: Any, blob_name: str, blob_def: Iterable[str]) -> None:
    """List blobs under a role, behind those that are there."""
    found = _value(meta_net_def.blobs, blob_name)
    (meta_net_def.blobs.add(key=blob_name).value if found is None else found).extend(blob_def)


def ReplaceBlobs(meta_net_def: Any, blob_name: str, blob_def: Iterable[str]) -> None:
    """List blobs under a role in place of those that are there."""
    found = _value(meta_net_def.blobs, blob_name)
    assert found is not None, f"no blobs are listed as {blob_name!r}"
    found[:] = blob_def


def AddPlan(meta_net_def: Any, plan_name: str, plan_def: Any) -> None:
    """Add a plan under a role."""
    meta_net_def.plans.add(key=plan_name, value=plan_def)


def AddNet(meta_net_def: Any, net_name: str, net_def: Any) -> None:
    """Add a net under a role."""
    meta_net_def.nets.add(key=net_name, value=net_def)


def SetBlobsOrder(meta_net_def: Any, blobs_order: Iterable[str]) -> None:
    """Add blobs to the order."""
    meta_net_def.blobsOrder.extend(blobs_order)


def SetPreLoadBlobs(meta_net_def: Any, pre_load_blobs: Iterable[str]) -> None:
    """Add blobs to those that are loaded first."""
    meta_net_def.preLoadBlobs.extend(pre_load_blobs)


def SetRequestOnlyEmbeddings(meta_net_def: Any, request_only_embeddings: Iterable[str]) -> None:
    """Add embeddings that a request alone reads."""
    meta_net_def.requestOnlyEmbeddings.extend(request_only_embeddings)


def GetBlobsOrder(meta_net_def: Any) -> Any:
    """Return the order of blobs."""
    return meta_net_def.blobsOrder


def SetTensorBoundShapes(meta_net_def: Any, tensor_bound_shapes: Any) -> None:
    """Note the greatest shapes."""
    meta_net_def.tensorBoundShapes.CopyFrom(tensor_bound_shapes)


def SetAOTConfig(meta_net_def: Any, aot_config: Any) -> None:
    """Note how the net is compiled beforehand."""
    meta_net_def.aotConfig.CopyFrom(aot_config)


def GetArgumentByName(net_def: Any, arg_name: str) -> Any:
    """Return an argument of a net, or None."""
    return next((one for one in net_def.arg if one.name == arg_name), None)


def AddModelIdArg(meta_net_def: Any, net_def: Any) -> None:
    """Give a net the whole number `model_id` of the net that predicts, if that has one."""
    given = GetArgumentByName(meta_net_def.predict_net, "model_id")
    if given is None:
        return
    there = GetArgumentByName(net_def, "model_id")
    (net_def.arg.add(name="model_id") if there is None else there).i = given.i

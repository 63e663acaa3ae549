"""What the extension of Caffe2 gave to Python, by its names: `workspace.C`, `core.C`.

Functions take messages as bytes, as they did, or as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from caffe2.python._extension_db import DB, Cursor, Mode, Transaction, create_db, new, read, registered_dbs, write
from caffe2.python._extension_graphs import (
    Annotation,
    Edge,
    Graph,
    MatchPredicateRef,
    NeuralNetData,
    NeuralNetOperator,
    NNGraph,
    NNMatchGraph,
    NNModule,
    NNModuleFromProtobuf,
    NNModuleFromProtobufDistributed,
    NNSubgraph,
    Node,
    NodeRef,
    matchSubgraph,
    replaceAllUsesWith,
    replaceAsConsumer,
    replaceProducer,
)
from caffe2.python._extension_memory import memonger_compute_blob_recycling_for_dag, memonger_optimize_inference_net
from caffe2.python._extension_nets import (
    BackgroundPlan,
    DummyName,
    Predictor,
    add_observer_to_net,
    apply_transform,
    apply_transform_if_faster,
    benchmark_net,
    benchmark_net_once,
    clear_global_net_observer,
    fill_random_network_inputs,
    get_operator_cost,
    infer_shapes_and_types_from_map,
    infer_shapes_and_types_from_workspace,
    num_observers_on_net,
    remove_observer_from_net,
    run_plan,
    run_plan_in_background,
    run_transform,
    run_workspace_transform,
    ssa_rewrite,
    transform_addNNPACK,
    transform_exists,
    transform_fuseConvBN,
    transform_fuseNNPACKConvRelu,
    workspace_transform_exists,
)
from caffe2.python._extension_operators import (
    Argument,
    GradientWrapper,
    OpSchema,
    get_gradient_defs,
    infer_op_input_output_device,
    nearby_opnames,
    op_registry_key,
    register_python_gradient_op,
    register_python_op,
    registered_operators,
    set_engine_pref,
    set_global_engine_pref,
    set_op_engine_pref,
    set_per_op_engine_pref,
)
from caffe2.python._extension_workspace import (
    Blob,
    Net,
    TensorCPU,
    Workspace,
    blobs,
    create_blob,
    create_child_workspace,
    create_net,
    create_offline_tensor,
    current_workspace,
    delete_net,
    deserialize_blob,
    feed_blob,
    fetch_blob,
    get_blob_numa_node,
    get_blob_size_bytes,
    get_stats,
    has_blob,
    local_blobs,
    nets,
    reset_blob,
    reset_workspace,
    root_folder,
    run_net,
    run_net_once,
    run_operator_multiple,
    run_operator_once,
    serialize_blob,
    switch_workspace,
    workspaces,
)
from tazza.device import initialize_devices

__all__ = [
    "DB",
    "Annotation",
    "Argument",
    "BackgroundPlan",
    "Blob",
    "Cursor",
    "DummyName",
    "Edge",
    "GradientWrapper",
    "Graph",
    "MatchPredicateRef",
    "Mode",
    "NNGraph",
    "NNMatchGraph",
    "NNModule",
    "NNModuleFromProtobuf",
    "NNModuleFromProtobufDistributed",
    "NNSubgraph",
    "Net",
    "NeuralNetData",
    "NeuralNetOperator",
    "Node",
    "NodeRef",
    "OpSchema",
    "Predictor",
    "TensorCPU",
    "Transaction",
    "Workspace",
    "add_observer_to_net",
    "apply_transform",
    "apply_transform_if_faster",
    "benchmark_net",
    "benchmark_net_once",
    "blobs",
    "builtin_cpu_supports_avx2",
    "clear_global_net_observer",
    "create_blob",
    "create_child_workspace",
    "create_db",
    "create_net",
    "create_offline_tensor",
    "cudnn_convolution_bwd_data_algo_count",
    "cudnn_convolution_bwd_filter_algo_count",
    "cudnn_convolution_fwd_algo_count",
    "current_workspace",
    "define_caffe2_no_operator_schema",
    "delete_net",
    "deserialize_blob",
    "fakeFp16FuseOps",
    "feed_blob",
    "fetch_blob",
    "fill_random_network_inputs",
    "get_blob_numa_node",
    "get_blob_size_bytes",
    "get_build_options",
    "get_cuda_version",
    "get_cudnn_version",
    "get_gradient_defs",
    "get_num_numa_nodes",
    "get_operator_cost",
    "get_stats",
    "global_init",
    "has_blob",
    "has_cuda_support",
    "has_gpu_support",
    "has_hip_support",
    "has_mkldnn",
    "infer_op_input_output_device",
    "infer_shapes_and_types_from_map",
    "infer_shapes_and_types_from_workspace",
    "is_asan",
    "is_numa_enabled",
    "local_blobs",
    "matchSubgraph",
    "memonger_compute_blob_recycling_for_dag",
    "memonger_optimize_inference_net",
    "nearby_opnames",
    "nets",
    "new",
    "num_cuda_devices",
    "num_observers_on_net",
    "on_module_exit",
    "op_registry_key",
    "read",
    "register_python_gradient_op",
    "register_python_op",
    "registered_dbs",
    "registered_operators",
    "remove_observer_from_net",
    "replaceAllUsesWith",
    "replaceAsConsumer",
    "replaceProducer",
    "reset_blob",
    "reset_workspace",
    "root_folder",
    "run_net",
    "run_net_once",
    "run_operator_multiple",
    "run_operator_once",
    "run_plan",
    "run_plan_in_background",
    "run_transform",
    "run_workspace_transform",
    "serialize_blob",
    "set_engine_pref",
    "set_global_engine_pref",
    "set_op_engine_pref",
    "set_per_op_engine_pref",
    "ssa_rewrite",
    "support_onnx_export",
    "switch_workspace",
    "transform_addNNPACK",
    "transform_exists",
    "transform_fuseConvBN",
    "transform_fuseNNPACKConvRelu",
    "use_mkldnn",
    "use_rocm",
    "use_trt",
    "workspace_transform_exists",
    "workspaces",
    "write",
]


has_hip_support = False
has_cuda_support = False
has_gpu_support = False
has_mkldnn = False
use_mkldnn = True
use_rocm = False
use_trt = False
is_asan = False
define_caffe2_no_operator_schema = False
cudnn_convolution_fwd_algo_count = 8
cudnn_convolution_bwd_data_algo_count = 6
cudnn_convolution_bwd_filter_algo_count = 7


def global_init(args: Sequence[str]) -> None:
    """Parse flags, and start what waits for that; flags of Caffe2 that mean nothing here are passed over."""
    from tazza.runtime.flags import FLAGS
    from tazza.runtime.init import global_init as start

    start([one for one in args if not _is_of_caffe2(one) or _flag_name(one) in FLAGS])


def _flag_name(argument: str) -> str:
    return argument.lstrip("-").partition("=")[0]


_OF_ITS_LOG = ("v", "minloglevel", "logtostderr")


def _is_of_caffe2(argument: str) -> bool:
    name = _flag_name(argument)
    return argument.startswith("-") and (name.startswith("caffe2_") or name in _OF_ITS_LOG)


def is_numa_enabled() -> bool:
    """Whether memory is taken from chosen nodes: never."""
    return False


def get_num_numa_nodes() -> int:
    """Return how many nodes memory is taken from."""
    return 1


def get_build_options() -> dict[str, str]:
    """Return how it was built: it was not."""
    return {}


def builtin_cpu_supports_avx2() -> bool:
    """Whether the processor has AVX2."""
    from pathlib import Path

    cpu = Path("/proc/cpuinfo")
    return cpu.exists() and " avx2 " in cpu.read_text()


def num_cuda_devices() -> int:
    """Return how many GPUs there are to run on."""
    return sum(place.kind == "cuda" for place in initialize_devices().present)


def get_cuda_version() -> int:
    """Return the version of CUDA, 0 without it."""
    return 0


def get_cudnn_version() -> int:
    """Return the version of cuDNN, 0 without it."""
    return 0


def on_module_exit() -> None:
    """Do nothing: what runs ends with the process."""


def fakeFp16FuseOps(net_def: bytes) -> bytes:
    """Return the net as it is: it has no such operators."""
    return net_def


def support_onnx_export(op_type: str) -> bool:
    """Whether an operator can be written as ONNX."""
    del op_type
    return False

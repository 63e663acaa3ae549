"""`CNNModelHelper`: models as they were written before `brew`, with layers as methods."""

from __future__ import annotations

from typing import Any

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, workspace
from caffe2.python.model_helper import ModelHelper


class CNNModelHelper(ModelHelper):
    """A model whose layers are methods: `model.Conv("data", "conv1", 3, 16, 5)`."""

    def __init__(
        self,
        order: str = "NCHW",
        name: str | None = None,
        use_cudnn: bool = True,
        cudnn_exhaustive_search: bool = False,
        ws_nbytes_limit: int | None = None,
        init_params: bool = True,
        skip_sparse_optim: bool = False,
        param_model: ModelHelper | None = None,
    ) -> None:
        """Begin a model; `order` and what is for cuDNN go to all layers."""
        given: dict[str, Any] = {
            "order": order,
            "use_cudnn": use_cudnn,
            "cudnn_exhaustive_search": cudnn_exhaustive_search,
        }
        if ws_nbytes_limit:
            given["ws_nbytes_limit"] = ws_nbytes_limit
        super().__init__(
            skip_sparse_optim=skip_sparse_optim,
            name="CNN" if name is None else name,
            init_params=init_params,
            param_model=param_model,
            arg_scope=given,
        )
        self.order = order
        self.use_cudnn = use_cudnn
        self.cudnn_exhaustive_search = cudnn_exhaustive_search
        self.ws_nbytes_limit = ws_nbytes_limit
        if self.order != "NHWC" and self.order != "NCHW":
            raise ValueError(f"Cannot understand the CNN storage order {self.order}.")

    def ImageInput(self, blob_in: Any, blob_out: Any, use_gpu_transform: bool = False, **kwargs: Any) -> Any:
        """Read images from a database."""
        return brew.image_input(
            self, blob_in, blob_out, order=self.order, use_gpu_transform=use_gpu_transform, **kwargs
        )

    def VideoInput(self, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
        """Read videos from a database."""
        return brew.video_input(self, blob_in, blob_out, **kwargs)

    def PadImage(self, blob_in: Any, blob_out: Any, **kwargs: Any) -> None:
        """Pad images; returns nothing."""
        self.net.PadImage(blob_in, blob_out, **kwargs)

    def ConvNd(self, *args: Any, **kwargs: Any) -> Any:
        """Convolve over any number of dimensions."""
        return brew.conv_nd(self, *args, **kwargs)

    def Conv(self, *args: Any, **kwargs: Any) -> Any:
        """Convolve."""
        return brew.conv(self, *args, **kwargs)

    def ConvTranspose(self, *args: Any, **kwargs: Any) -> Any:
        """Convolve backwards."""
        return brew.conv_transpose(self, *args, **kwargs)

    def GroupConv(self, *args: Any, **kwargs: Any) -> Any:
        """Convolve in groups."""
        return brew.group_conv(self, *args, **kwargs)

    def GroupConv_Deprecated(self, *args: Any, **kwargs: Any) -> Any:
        """Convolve in groups, by an operator each."""
        return brew.group_conv_deprecated(self, *args, **kwargs)

    def FC(self, *args: Any, **kwargs: Any) -> Any:
        """Multiply by a matrix and add a bias."""
        return brew.fc(self, *args, **kwargs)

    def PackedFC(self, *args: Any, **kwargs: Any) -> Any:
        """Multiply by a packed matrix and add a bias."""
        return brew.packed_fc(self, *args, **kwargs)

    def FC_Prune(self, *args: Any, **kwargs: Any) -> Any:
        """Multiply by a matrix that is pruned."""
        return brew.fc_prune(self, *args, **kwargs)

    def FC_Decomp(self, *args: Any, **kwargs: Any) -> Any:
        """Multiply by a product of two matrices."""
        return brew.fc_decomp(self, *args, **kwargs)

    def FC_Sparse(self, *args: Any, **kwargs: Any) -> Any:
        """Multiply by a sparse matrix."""
        return brew.fc_sparse(self, *args, **kwargs)

    def Dropout(self, *args: Any, **kwargs: Any) -> Any:
        """Drop some of the elements."""
        return brew.dropout(self, *args, **kwargs)

    def LRN(self, *args: Any, **kwargs: Any) -> Any:
        """Divide by what lies near in other channels."""
        return brew.lrn(self, *args, **kwargs)

    def Softmax(self, *args: Any, **kwargs: Any) -> Any:
        """Turn scores into probabilities."""
        return brew.softmax(self, *args, **kwargs)

    def SpatialBN(self, *args: Any, **kwargs: Any) -> Any:
        """Normalize each channel over the batch."""
        return brew.spatial_bn(self, *args, **kwargs)

    def SpatialGN(self, *args: Any, **kwargs: Any) -> Any:
        """Normalize groups of channels of each image."""
        return brew.spatial_gn(self, *args, **kwargs)

    def InstanceNorm(self, *args: Any, **kwargs: Any) -> Any:
        """Normalize each channel of each image."""
        return brew.instance_norm(self, *args, **kwargs)

    def Relu(self, *args: Any, **kwargs: Any) -> Any:
        """Keep what is positive."""
        return brew.relu(self, *args, **kwargs)

    def PRelu(self, *args: Any, **kwargs: Any) -> Any:
        """Keep what is positive, and some of the rest."""
        return brew.prelu(self, *args, **kwargs)

    def Concat(self, *args: Any, **kwargs: Any) -> Any:
        """Join blobs."""
        return brew.concat(self, *args, **kwargs)

    def DepthConcat(self, *args: Any, **kwargs: Any) -> Any:
        """Join channels."""
        print("DepthConcat is deprecated. use Concat instead.")
        return self.Concat(*args, **kwargs)

    def Sum(self, *args: Any, **kwargs: Any) -> Any:
        """Add blobs."""
        return brew.sum(self, *args, **kwargs)

    def Transpose(self, *args: Any, **kwargs: Any) -> Any:
        """Change the order of dimensions."""
        return brew.transpose(self, *args, **kwargs)

    def Iter(self, *args: Any, **kwargs: Any) -> Any:
        """Count the runs."""
        return brew.iter(self, *args, **kwargs)

    def Accuracy(self, *args: Any, **kwargs: Any) -> Any:
        """Count the right answers."""
        return brew.accuracy(self, *args, **kwargs)

    def MaxPool(self, *args: Any, **kwargs: Any) -> Any:
        """Take the largest of each window."""
        return brew.max_pool(self, *args, **kwargs)

    def MaxPoolWithIndex(self, *args: Any, **kwargs: Any) -> Any:
        """Take the largest of each window, and where it was."""
        return brew.max_pool_with_index(self, *args, **kwargs)

    def AveragePool(self, *args: Any, **kwargs: Any) -> Any:
        """Take the mean of each window."""
        return brew.average_pool(self, *args, **kwargs)

    @property
    def XavierInit(self) -> tuple[str, dict[str, Any]]:
        """The fill of Glorot and Bengio."""
        return ("XavierFill", {})

    def ConstantInit(self, value: Any) -> tuple[str, dict[str, Any]]:
        """Return the fill of one value."""
        return ("ConstantFill", {"value": value})

    @property
    def MSRAInit(self) -> tuple[str, dict[str, Any]]:
        """The fill of He and others."""
        return ("MSRAFill", {})

    @property
    def ZeroInit(self) -> tuple[str, dict[str, Any]]:
        """The fill of zeros."""
        return ("ConstantFill", {})

    def AddWeightDecay(self, weight_decay: float) -> Any:
        """Add a share of each weight to its gradient."""
        return brew.add_weight_decay(self, weight_decay)

    @property
    def CPU(self) -> Any:
        """The option of the CPU."""
        return core.DeviceOption(caffe2_pb2.CPU)

    @property
    def GPU(self, gpu_id: int = 0) -> Any:
        """The option of a GPU."""
        return core.DeviceOption(workspace.GpuDeviceType, gpu_id)

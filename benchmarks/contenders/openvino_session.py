"""OpenVINO: an infer request of a model that was compiled for low latency, NumPy arrays in and out without copies."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from benchmarks.job import BFLOAT16, ONNX_FILE, Job, Session

openvino: Any = import_module("openvino")


def start(job: Job) -> Session:
    """Return a session for the job."""
    return _Predicts(job)


class _Predicts:
    request: Any
    found: Any
    inputs: dict[str, NDArray[Any]]

    def __init__(self, job: Job) -> None:
        self.job = job

    def note(self) -> str:
        """Return the version."""
        return f"openvino {openvino.__version__.partition('-')[0]}"

    def load(self) -> None:
        """Compile the model for exactly this batch."""
        core = openvino.Core()
        model = core.read_model(str(self.job.path / ONNX_FILE))
        shapes = {name: [self.job.batch, *shape] for name, shape in self.job.net.inputs.items()}
        model.reshape(shapes)
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": self.job.threads,
            "INFERENCE_PRECISION_HINT": "bf16" if self.job.precision == BFLOAT16 else "f32",
            "CPU_DENORMALS_OPTIMIZATION": True,
        }
        self.request = core.compile_model(model, "CPU", settings).create_infer_request()
        self.inputs = self.job.inputs()

    def run(self) -> None:
        """Predict a batch."""
        self.found = self.request.infer(self.inputs, share_inputs=True, share_outputs=True)

    def result(self) -> NDArray[Any]:
        """Return the probabilities."""
        return self.found[0].copy()

"""ONNX Runtime: `session.run` with NumPy arrays in and out."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from benchmarks.job import ONNX_FILE, Job, Session

onnxruntime: Any = import_module("onnxruntime")


def start(job: Job) -> Session:
    """Return a session for the job."""
    return _Predicts(job)


class _Predicts:
    session: Any
    found: Any
    inputs: dict[str, NDArray[Any]]

    def __init__(self, job: Job) -> None:
        self.job = job

    def note(self) -> str:
        """Return the version."""
        return f"onnxruntime {onnxruntime.__version__}"

    def load(self) -> None:
        """Make the session for exactly this batch."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.job.threads
        options.inter_op_num_threads = 1
        options.add_free_dimension_override_by_name("N", self.job.batch)
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        file = str(self.job.path / ONNX_FILE)
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self.inputs = self.job.inputs()

    def run(self) -> None:
        """Predict a batch."""
        (self.found,) = self.session.run(None, self.inputs)

    def result(self) -> NDArray[Any]:
        """Return the probabilities."""
        return self.found

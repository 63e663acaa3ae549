"""The log of an experiment: a line of comma-separated values for each call, in a file, in `logging`, and elsewhere."""

from __future__ import annotations

import logging
import socket
import time
from abc import ABCMeta, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tazza.runtime.files import open_descriptor

__all__ = ["ExternalLogger", "ModelTrainerLog", "OrderedDict"]

logger = logging.getLogger("experiment_logger")
logger.setLevel(logging.INFO)


class ExternalLogger:
    """Keeps what is logged elsewhere as well; one's own defines both methods."""

    __metaclass__ = ABCMeta

    @abstractmethod
    def set_runtime_args(self, runtime_args: dict[str, Any]) -> None:
        """Take the arguments of the experiment, with its name and the host's."""
        del runtime_args
        raise NotImplementedError("a logger has to define set_runtime_args")

    @abstractmethod
    def log(self, log_dict: dict[str, Any]) -> None:
        """Take the values of a line, by name."""
        del log_dict
        raise NotImplementedError("a logger has to define log")


class ModelTrainerLog:
    """Writes how training goes to `EXPERIMENT_DATE_TIME.log` in the present folder."""

    def __init__(
        self, expname: str, runtime_args: Any, external_loggers: Sequence[ExternalLogger] | None = None
    ) -> None:
        """Begin a log.

        Args:
            expname: name of the experiment.
            runtime_args: what it was started with, an `argparse.Namespace` or a dict; the first line of the log.
            external_loggers: who is told as well.

        Raises:
            FileError: the file cannot be written.
        """
        now = time.time()
        self.experiment_id = f"{expname}_{time.strftime('%Y%m%d_%H%M%S', time.localtime(now))}"
        self.filename = f"{self.experiment_id}.log"
        self.logstr(f"# {runtime_args}")
        self.headers: list[str] | None = None
        self.start_time = self.last_time = now
        self.last_input_count = 0
        self.external_loggers: list[ExternalLogger] = list(external_loggers) if external_loggers is not None else []
        if self.external_loggers:
            given = dict(cast("dict[str, Any]", runtime_args if isinstance(runtime_args, dict) else vars(runtime_args)))
            given["experiment_id"] = self.experiment_id
            given["hostname"] = socket.gethostname()
            for each in self.external_loggers:
                each.set_runtime_args(given)

    def logstr(self, str: str) -> None:
        """Add a line of any text."""
        with open(Path(self.filename), "a", encoding="utf-8", opener=open_descriptor) as file:
            file.write(f"{str}\n")
        logger.info(str)

    def log(self, input_count: int, batch_count: int, additional_values: dict[str, Any]) -> None:
        """Add a line of values, behind a line of their names if it is the first.

        Args:
            input_count: examples that were seen since the beginning.
            batch_count: batches that were.
            additional_values: others, in the order of their names. Times are in seconds.
        """
        now = time.time()
        spent, inputs = now - self.last_time, input_count - self.last_input_count
        row: OrderedDict[str, Any] = OrderedDict(
            time_spent=spent,
            cumulative_time_spent=now - self.start_time,
            input_count=inputs,
            cumulative_input_count=input_count,
            cumulative_batch_count=batch_count,
            inputs_per_sec=inputs / spent if spent > 0 else 0.0,
        )
        row.update((name, additional_values[name]) for name in sorted(additional_values))
        if self.headers is None:
            self.headers = list(row)
            self.logstr(",".join(self.headers))
        self.logstr(",".join(f"{value}" for value in row.values()))
        for each in self.external_loggers:
            each.log(row)
        self.last_time, self.last_input_count = now, input_count

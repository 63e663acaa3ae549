"""Jobs of epochs, whose blobs are saved behind each, and which go on from any of them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

from caffe2.python import context, core
from caffe2.python.net_builder import ops
from caffe2.python.task import Node, Task, TaskGroup, TaskOutput, WorkspaceType, final_output

__all__ = [
    "CheckpointManager",
    "Job",
    "JobRunner",
    "MultiNodeCheckpointManager",
    "UploadTaskGroupBuilder",
    "db_name",
    "epoch_limiter",
    "get_ckpt_filename",
    "logger",
]

logger = logging.getLogger(__name__)


class Job(context.Managed):
    """Four groups of tasks, which a `JobRunner` runs: once, in every epoch, when training is over, at the very end.

        with Job() as job:
            with job.init_group:
                Task(step=model.param_init_net)
            with job.epoch_group:
                Task(step=model.net)
            with job.exit_group:
                Task(step=save_net)
            job.add_stop_condition(finished)

    Inside of `with Job()` tasks are of the epoch, unless another group is said.
    """

    def __init__(
        self,
        init_group: Any = None,
        epoch_group: Any = None,
        download_group: Any = None,
        exit_group: Any = None,
        stop_conditions: Any = None,
        nodes_to_checkpoint: Any = None,
    ) -> None:
        """Make a job, of new groups where none are given.

        Args:
            init_group: runs once; what it makes is saved.
            epoch_group: runs until a stop condition is true behind it.
            download_group: runs once behind the last epoch: collects parameters from nodes.
            exit_group: runs once behind all.
            stop_conditions: outputs of tasks.
            nodes_to_checkpoint: whose blobs are saved; those that `init_group` uses by default.
        """
        own = TaskGroup(workspace_type=WorkspaceType.GLOBAL) if init_group is None else init_group
        self.init_group: Any = own
        self.epoch_group, self.download_group, self.exit_group = (
            TaskGroup() if one is None else one for one in (epoch_group, download_group, exit_group)
        )
        self.stop_conditions: list[Any] = [] if stop_conditions is None else stop_conditions
        self._nodes_to_checkpoint = nodes_to_checkpoint

    def nodes_to_checkpoint(self) -> Any:
        """Return the nodes whose blobs are saved."""
        return self._nodes_to_checkpoint or self.init_group.used_nodes()

    def compile(self, session_class: Any) -> None:
        """Compile all groups for a kind of session."""
        self._nodes_to_checkpoint = self.nodes_to_checkpoint()
        for name in ("init_group", "epoch_group", "download_group", "exit_group"):
            setattr(self, name, session_class.compile(getattr(self, name)))

    def __enter__(self) -> Any:
        super().__enter__()
        self.epoch_group.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self.epoch_group.__exit__()
        super().__exit__(*args)

    def add_stop_condition(self, output: Any) -> None:
        """End the job behind an epoch in which a blob, or an output of a task, is true."""
        if isinstance(output, core.BlobReference):
            output = Task(outputs=[output], group=self.epoch_group).outputs()[0]
        assert isinstance(output, TaskOutput), f"a blob or an output of a task, not {output}"
        self.stop_conditions.append(output)


def get_ckpt_filename(node_name: str, epoch: int) -> str:
    """Return what the file of a node and an epoch is called.

    >>> get_ckpt_filename("trainer", 3)
    'trainer.3'
    """
    return f"{node_name}.{epoch}"


def db_name(epoch: int, node_name: str, db_prefix: str, path_prefix: str | None = None) -> str:
    """Return the path of a checkpoint: in the folder `db_prefix`, or right behind `path_prefix` if there is one.

    >>> db_name(3, "trainer", "folder"), db_name(3, "trainer", "folder", "other/run-")
    ('folder/trainer.3', 'other/run-trainer.3')
    """
    file = get_ckpt_filename(node_name, epoch)
    return path_prefix + file if path_prefix else os.path.join(db_prefix, file)


class _Managed:
    """What managers of one node and of several have in common: what keeps account of checkpoints elsewhere."""

    def __init__(self, db_prefix: str, db_type: str, metadata_handler: Any) -> None:
        self._db_prefix = db_prefix
        self._db_type = db_type
        self._metadata_handler = metadata_handler
        self._path_prefix: str | None = None
        self._path_type: str | None = None

    def write_checkpoint_metadata(self, epoch: int) -> None:
        """Enter an epoch in the account."""
        if self._metadata_handler is not None:
            self._metadata_handler.write(epoch=epoch)

    def get_resume_from_epoch_id(self, user_epoch: int | None = None) -> int | None:
        """Return from which epoch to go on: the one that is asked for, or what the account says of it."""
        if self._metadata_handler is None:
            return user_epoch
        return self._metadata_handler.last_epoch(user_epoch=user_epoch)

    def cp_accessible(self, epoch: int | None = None) -> bool:
        """Whether the account says that the checkpoint of an epoch, or their folder, can be reached."""
        return True if self._metadata_handler is None else self._metadata_handler.cp_accessible(epoch)

    def _set_params(self, names: list[str], path_prefix: str | None, path_type: str | None) -> None:
        self._path_prefix = path_prefix or self._path_prefix
        self._path_type = path_type or self._path_type
        if self._metadata_handler:
            self._metadata_handler.set_params(
                db_prefix=self._db_prefix,
                db_type=self._db_type,
                node_names=names,
                path_prefix=self._path_prefix,
                path_type=self._path_type,
            )

    def _report(self, action_name: str, stats: dict[str, Any]) -> None:
        if self._metadata_handler:
            self._metadata_handler.report(action_name, stats)


class CheckpointManager(_Managed):
    """Makes the tasks that save and load the blobs of one node."""

    BLOB_NAMES = "blob_names"

    def __init__(self, db_prefix: str, node_name: str, db_type: str, metadata_handler: Any = None) -> None:
        """Save in the folder `db_prefix`, in databases of a type; a handler may keep account of what is there."""
        super().__init__(db_prefix, db_type, metadata_handler)
        self._node_name = node_name
        self._net = core.Net("!!checkpoint_mngr")
        self._blob_names = self._net.AddExternalInput(self.BLOB_NAMES)
        self._names_output: Any = None
        self._current_db_name: str | None = None
        self._current_checkpoint_duration: Any = None

    def init(
        self,
        nodes: Sequence[Any] | None = None,
        retrieve_from_epoch: int | None = None,
        path_prefix: str | None = None,
        path_type: str | None = None,
    ) -> Any:
        """Return a task that finds which blobs are saved: all that are there, or those of an earlier checkpoint."""
        assert nodes is None or len(nodes) == 1, "CheckpointManager only supports single node."
        with Task(outputs=[self._blob_names]) as task:
            if retrieve_from_epoch is None:
                ops.GetAllBlobNames([], self._blob_names, include_shared=False)
            else:
                source = self.path_of(retrieve_from_epoch, path_prefix)
                self._load(source, self._blob_names, path_type, keep_device=True)
        self._names_output = task.outputs()[0]
        return task

    def path_of(self, epoch: int, path_prefix: str | None = None) -> str:
        """Return where the checkpoint of an epoch is."""
        return db_name(epoch, self._node_name, self._db_prefix, path_prefix)

    def _load(self, source: str, blobs: Any, path_type: str | None = None, **more: Any) -> None:
        ops.Load([], blobs, db=source, db_type=path_type or self._db_type, absolute_path=True, **more)

    def blob_list(self) -> Any:
        """Return the names of the blobs, when the task of `init` has run."""
        assert self._names_output, "init must be called first."
        return self._names_output.fetch().tolist()

    def _timed_task(self, cp_op_name: str, add_op: Callable[[], None]) -> Any:
        """Return a task of this name that also tells how long it takes, in nanoseconds."""
        with Task(name=cp_op_name) as task:
            with ops.task_init():
                timer = ops.TimerBegin([], counter_name=self._node_name)
            add_op()
            with ops.task_exit():
                elapsed = ops.TimerGetAndEnd(timer)
            self._current_checkpoint_duration = final_output(elapsed)
        return task

    def collect_checkpoint_stats(self, stats: dict[str, Any]) -> None:
        """Add how long the last task took, under the path that it wrote or read."""
        if self._current_db_name and self._current_checkpoint_duration:
            stats[self._current_db_name] = self._current_checkpoint_duration.fetch()[0]
        else:
            logger.info("nothing is known of how long %s took", self._current_db_name)

    def load(self, epoch: int, path_prefix: str | None = None, path_type: str | None = None) -> Any:
        """Return a task that loads all blobs of an epoch."""
        source = self._current_db_name = self.path_of(epoch, path_prefix)
        return self._timed_task(
            "checkpoint_load", lambda: self._load(source, self.blob_list(), path_type, keep_device=True)
        )

    def load_blobs_from_checkpoint(self, blob_names: Sequence[str], epoch: int) -> Any:
        """Return a task that loads those of some blobs that an epoch has."""
        source = self._current_db_name = self.path_of(epoch)
        return self._timed_task(
            "checkpoint_partial_load", lambda: self._load(source, blob_names, allow_incomplete=True)
        )

    def check_db_exists(self, epoch: int) -> Any:
        """Return a task that tells whether the checkpoint of an epoch is there."""
        with Task() as task:
            existence = ops.Const(False)
            ops.DBExists(
                [],
                [existence],
                db_name=self.path_of(epoch),
                db_type=self._db_type,
                absolute_path=True,
            )
            task.add_output(existence)
        return task

    def report_checkpoint_stats(self, action_name: str) -> None:
        """Tell the account how long the last task took."""
        stats: dict[str, Any] = {}
        self.collect_checkpoint_stats(stats)
        self._report(action_name, stats)

    def save(self, epoch: int) -> Any:
        """Return a task that saves the blobs behind an epoch."""
        target = self._current_db_name = self.path_of(epoch)

        def add_op() -> None:
            ops.Save(self.blob_list(), [], db=target, db_type=self._db_type, absolute_path=True)

        return self._timed_task("checkpoint_save", add_op)

    def set_params(self, nodes: Sequence[Any], path_prefix: str | None = None, path_type: str | None = None) -> None:
        """Tell the account of nodes, paths and types."""
        del nodes
        self._set_params([str(self._node_name)], path_prefix, path_type)


class MultiNodeCheckpointManager(_Managed):
    """Makes the groups of tasks that save and load the blobs of several nodes, each by a manager of its own."""

    def __init__(self, db_prefix: str, db_type: str, metadata_handler: Any = None) -> None:
        """Save in the folder `db_prefix`, in databases of a type; a handler may keep account of what is there."""
        super().__init__(db_prefix, db_type, metadata_handler)
        self._node_managers: list[tuple[Any, CheckpointManager]] | None = None

    def _task_group(self, func: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Return a group with a task for each node."""
        with TaskGroup(WorkspaceType.GLOBAL) as group:
            for node, manager in self._managers():
                with Node(node):
                    func(manager, *args, **kw)
            return group

    def _managers(self) -> list[tuple[Any, CheckpointManager]]:
        assert self._node_managers is not None, "init must be called first."
        return self._node_managers

    def _manage(self, nodes: Any) -> bool:
        """Make the managers of nodes; returns False if they are there."""
        if self._node_managers is not None:
            known = [node for node, _ in self._node_managers]
            assert known == nodes, f"the nodes were {known}, not {nodes}"
            return False
        self._node_managers = []
        for node in nodes:
            with Node(node):
                self._node_managers.append((node, CheckpointManager(self._db_prefix, str(node), self._db_type)))
        return True

    def init(
        self,
        nodes: Any,
        retrieve_from_epoch: int | None = None,
        path_prefix: str | None = None,
        path_type: str | None = None,
    ) -> Any:
        """Return a group of tasks as `CheckpointManager.init`; an empty one when it was called before."""
        if not self._manage(nodes):
            return TaskGroup(WorkspaceType.GLOBAL)
        return self._task_group(
            CheckpointManager.init,
            nodes=[list(nodes)[-1]],
            retrieve_from_epoch=retrieve_from_epoch,
            path_prefix=path_prefix,
            path_type=path_type,
        )

    def load(self, epoch: int, path_prefix: str | None = None, path_type: str | None = None) -> Any:
        """Return a group of tasks that load all blobs of an epoch."""
        return self._task_group(CheckpointManager.load, epoch, path_prefix=path_prefix, path_type=path_type)

    def load_blobs_locally(self, nodes: Any, blob_names: Sequence[str], epoch: int, session: Any) -> bool:
        """Load those of some blobs that the checkpoints of the nodes have, here; False if one is not there."""
        self._manage(nodes)
        for _, manager in self._managers():
            exists = manager.check_db_exists(epoch)
            session.run(exists)
            if not exists.outputs()[0].fetch():
                logger.info("there is no %s", manager.path_of(epoch))
                return False
            session.run(manager.load_blobs_from_checkpoint(blob_names, epoch))
        return True

    def get_ckpt_db_name(self, node_name: str, epoch: int) -> str | None:
        """Return the path of the checkpoint of a node, None for one that is not managed."""
        found = [manager for node, manager in self._managers() if str(node) == node_name]
        return found[0].path_of(epoch) if found else None

    def report_checkpoint_stats(self, action_name: str) -> None:
        """Tell the account how long the last tasks took."""
        stats: dict[str, Any] = {}
        for _, manager in self._managers():
            manager.collect_checkpoint_stats(stats)
        self._report(action_name, stats)

    def save(self, epoch: int) -> Any:
        """Return a group of tasks that save the blobs behind an epoch."""
        return self._task_group(CheckpointManager.save, epoch)

    def set_params(self, nodes: Any, path_prefix: str | None = None, path_type: str | None = None) -> None:
        """Tell the account of nodes, paths and types."""
        self._node_names = [str(node) for node in nodes]
        self._set_params(self._node_names, path_prefix, path_type)


class UploadTaskGroupBuilder:
    """Base of what brings checkpoints elsewhere."""

    def build(self, epoch: int, checkpoint_manager: Any) -> Any:
        """Return a group of tasks that brings the checkpoint of an epoch elsewhere."""
        raise NotImplementedError


class JobRunner:
    """Runs a job epoch by epoch, with a checkpoint before the first and behind each, where there is a manager."""

    def __init__(
        self,
        job: Any,
        checkpoint_manager: Any = None,
        resume_from_epoch: int | None = None,
        upload_task_group_builder: Any = None,
    ) -> None:
        """Take a job; with an epoch to go on from its blobs are loaded, and `init_group` does not run."""
        self.resume_from_epoch = resume_from_epoch
        self.checkpoint_manager = checkpoint_manager
        self.job = job
        self.upload_task_group_builder = upload_task_group_builder

    def train(self, session: Any) -> int:
        """Run the job to its end; returns the number of the last epoch."""
        job, manager = self.job, self.checkpoint_manager
        if manager:
            manager.set_params(nodes=job.nodes_to_checkpoint())
            self.resume_from_epoch = manager.get_resume_from_epoch_id(self.resume_from_epoch)
        begin = self.resume_from_epoch
        if begin is None:
            session.run(job.init_group)
        if manager:
            session.run(manager.init(job.nodes_to_checkpoint(), retrieve_from_epoch=begin))
            self._begin_with(begin, session)
        epoch = 1 if begin is None else begin + 1
        while True:
            logger.info("epoch %d", epoch)
            session.run(job.epoch_group)
            over = [condition.fetch() for condition in job.stop_conditions]
            if manager:
                self.save_checkpoints(epoch, session)
            if any(over):
                break
            epoch += 1
        if self.upload_task_group_builder:
            session.run(self.upload_task_group_builder.build(epoch, manager))
        session.run(job.download_group)
        session.run(job.exit_group)
        return epoch

    def _begin_with(self, epoch: int | None, session: Any) -> None:
        """Save what the job begins with, or load the checkpoint of an epoch."""
        if epoch is None:
            self.save_checkpoints(0, session)
            return
        session.run(self.checkpoint_manager.load(epoch))
        self.checkpoint_manager.report_checkpoint_stats("checkpoint_load")

    def _manager(self) -> Any:
        if not self.checkpoint_manager:
            raise ValueError("Checkpoint manager is None")
        return self.checkpoint_manager

    def load_blobs_from_checkpoints(self, blob_names: Sequence[str], epoch: int, session: Any) -> bool:
        """Load those of some blobs that the checkpoints of all nodes have; False if a checkpoint is not there.

        Raises:
            ValueError: there is no manager.
        """
        manager = self._manager()
        found = manager.load_blobs_locally(self.job.nodes_to_checkpoint(), blob_names, epoch, session)
        manager.report_checkpoint_stats("checkpoint_partial_load")
        return cast("bool", found)

    def save_checkpoints(self, epoch: int, session: Any) -> None:
        """Save the blobs behind an epoch; what goes wrong is told, and the job goes on.

        Raises:
            ValueError: there is no manager.
        """
        manager = self._manager()
        try:
            if not manager.cp_accessible(epoch=None):
                logger.warning("Checkpoint files cannot be accessed!")
                return
            session.run(manager.save(epoch))
            manager.write_checkpoint_metadata(epoch)
            manager.report_checkpoint_stats("checkpoint_save")
        except Exception as error:
            logger.warning("Unable to write checkpoint for epoch %s. Error=%s", epoch, error)


def epoch_limiter(job: Any, num_epochs: int) -> None:
    """End a job behind so many epochs."""
    with job.init_group:
        init_net = core.Net("epoch_counter_init")
        counter = init_net.CreateCounter([], init_count=num_epochs - 1)
        Task(step=init_net)
    with job.epoch_group:
        epoch_net = core.Net("epoch_countdown")
        finished = epoch_net.CountDown(counter)
        output = Task(step=epoch_net, outputs=finished).outputs()[0]
    job.add_stop_condition(output)

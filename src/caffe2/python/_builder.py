"""A builder of steps: nets in a row, and parts among them that are left early, run again or run on a condition.

`NetBuilder` belongs to one `with`. Its children are nets and builders, in the order in which they run. Operators go to
the net that is current; a child or a stop ends it. A builder is left when its *stop blob* is true, which the step sees
between its children. A builder *with control operators* has no steps: it becomes one net, whose branches and loops are
operators, and which sees and writes the blobs of the nets around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from caffe2.python import context, core


class NetBuilder(context.Managed):
    """Nets and builders in a row."""

    def __init__(
        self,
        name: str | None = None,
        initial_scope: Iterable[Any] | None = None,
        _stop_blob_required: bool = False,
        _stop_blob: Any = None,
        _fullname: str | None = None,
        _use_control_ops: bool = False,
    ) -> None:
        """Start a builder within the current one, whose name comes in front; `initial_scope` are blobs it may write."""
        assert not (name and _fullname), "Cannot set both _fullname and name"
        assert not (_use_control_ops and (_stop_blob_required or _stop_blob)), (
            "Stop blobs are not used with control operators"
        )
        parent = NetBuilder.current(required=False)
        self.name = _fullname or "/".join(part for part in (parent.name if parent else None, name) if part)
        self._frozen = False
        self._current_net: Any = None
        self._children: list[Any] = []
        self._init_lexical_scope = {*(parent._visible() if parent else ()), *map(str, initial_scope or ())}
        self._stop_blob = _stop_blob
        self._stop_blob_required = _stop_blob_required
        self._use_control_ops = _use_control_ops

    def _visible(self) -> set[str]:
        """Return the blobs that operators within may read and write."""
        found = set(self._init_lexical_scope)
        for child in self._children:
            if isinstance(child, core.Net):
                found |= child.UsedBlobNames()
            elif isinstance(child, NetBuilder) and child._use_control_ops:
                found |= child._visible()
        return found

    def stop_blob(self) -> Any:
        """Return the blob that ends it, which the first of its nets makes false."""
        assert not self._use_control_ops, "Stop blobs are not used with control operators"
        self._assert_mutable()
        if self._stop_blob is None:
            net = self.current_net()
            self._stop_blob = core.BlobReference(net.NextName("stop_blob"), net=net)
            net.Const(False, blob_out=self._stop_blob)
            if self._current_net is not self._children[0]:
                first = core.Net("stop_blob_init")
                first.Const(False, blob_out=self._stop_blob)
                self._children.insert(0, first)
        return self._stop_blob

    def stop_if(self, blob: Any) -> None:
        """Leave it here if a blob is true."""
        assert not self._use_control_ops, "Stop blobs are not used with control operators"
        stop_blob = self.stop_blob()
        self.current_net().Or([stop_blob, blob], [stop_blob])
        self._current_net = None

    def _assert_mutable(self) -> None:
        assert not self._frozen, f"This NetBuilder ({self.name}) has been built already."

    def add(self, child: Any) -> Any:
        """Append a net, which is the current one then, or a builder; returns it."""
        self._assert_mutable()
        if self._use_control_ops:
            controlled = isinstance(child, core.Net) or (isinstance(child, NetBuilder) and child._use_control_ops)
            assert controlled, "Expected Net or NetBuilder with control ops"
        self._current_net = child if isinstance(child, core.Net) else None
        self._children.append(child)
        return child

    def current_net(self, name: str | None = None) -> Any:
        """Return the net that operators go to, a new one where it is named."""
        self._assert_mutable()
        if self._current_net is None or name:
            self.add(core.Net(name or ""))
        return self._current_net

    def freeze(self) -> None:
        """End it, with all that is within."""
        for child in self._children:
            if isinstance(child, NetBuilder):
                child.freeze()
        self._current_net = None
        self._frozen = True

    def get(self) -> list[Any]:
        """End it, and return its children."""
        self.freeze()
        return self._children

    def to_execution_step(self, name: str | None = None) -> Any:
        """End it, and return it as a step."""
        children = self.get()
        return core.execution_step(name or self.name, children, should_stop_blob=self._stop_blob)

    def _merged(self, name: str) -> Any:
        """Return its children as one net, an empty one of that name where there are none."""
        children, self._children = self._children, []
        self._current_net = None
        return self.merge_nets(children, self._init_lexical_scope) or core.Net(name)

    def _finish(self) -> None:
        """Add what comes at its end, while it is still the current one; with control operators, become one net."""
        if self._use_control_ops and self._children:
            self._children = [self.merge_nets(self._children, self._init_lexical_scope)]

    def __exit__(self, *args: object) -> None:
        try:
            if args[0] is None:
                self._finish()
        finally:
            super().__exit__(*args)
        assert args[0] is not None or self._stop_blob is not None or not self._stop_blob_required, (
            f"This NetBuilder ({self.name}) requires a stop condition to be set with `stop` or `stop_if`"
        )

    @staticmethod
    def merge_nets(nets_or_builders: Iterable[Any], outer_blob_names: Iterable[Any]) -> Any:
        """Return the first of some nets with the operators of all, or None; its outputs are those that others see."""
        nets: list[Any] = []
        for one in nets_or_builders:
            nets += one._children if isinstance(one, NetBuilder) else [one]
        if not nets:
            return None
        merged, *others = nets
        for net in others:
            merged.AppendNet(net)
        visible = set(map(str, outer_blob_names))
        outputs = [name for name in merged.Proto().external_output if name in visible]
        merged.Proto().external_output[:] = outputs
        return merged

    def __str__(self) -> str:
        return self.name or "Un-named NetBuilder"

"""A model: a net that computes, and a net that makes its parameters.

    model = Model("digits")
    hidden = model.fc("data", "hidden", 784, 100)

`fc` and the others are layers: functions that take the model first, registered by `@layer` (see `tazza.models.layers`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from copy import copy
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar

from tazza.data_class import dataclass
from tazza.errors import DuplicateError, NotFoundError, ShapeError
from tazza.models.initializer import Initializer
from tazza.models.net import BlobReference, Net, scoped
from tazza.operator import Gradient
from tazza.registry import Registry

LAYERS: Registry[str, Callable[..., Any]] = Registry("layer")
"""By the name under which `Model` has it as a method."""

F = TypeVar("F", bound=Callable[..., Any])


def layer(function: F) -> F:
    """Register a function that takes a model first; every model has it as a method of that name."""
    doc = function.__doc__ if function.__doc__ is not None else ""
    LAYERS.register(function.__name__, function, help=doc.partition("\n")[0])
    return function


class ParameterKind(enum.Enum):
    """What a parameter is for."""

    WEIGHT = "weight"
    """Learned; weight decay applies."""
    BIAS = "bias"
    """Learned; weight decay does not apply."""
    COMPUTED = "computed"
    """Not learned from gradients: running statistics."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a model."""

    blob: BlobReference
    shape: tuple[int, ...]
    kind: ParameterKind


if TYPE_CHECKING:
    from tazza.models.layer_methods import LayerMethods
else:
    LayerMethods = object


class Model(LayerMethods):
    """Two nets, and the parameters that they share.

    >>> model = Model("digits")
    >>> model.fc("data", "scores", 4, 3)
    BlobReference('scores')
    >>> [op.type for op in model.init_net.proto.op], model.parameter_blobs()
    (['XavierFill', 'ConstantFill'], [BlobReference('scores_w'), BlobReference('scores_b')])
    """

    def __init__(self, name: str, *, parameters_of: Model | None = None, strict: bool = True) -> None:
        """Start an empty model.

        Args:
            name: of the net; the other is `<name>_init`. Both are made unique in the process.
            parameters_of: a model whose parameters are taken, by name, and not made again: for the net that tests what
                the other one trains.
            strict: see `Net`.
        """
        self.net = Net(name, strict=strict)
        self.init_net = Net(f"{name}_init", strict=strict)
        self.parameters: dict[str, Parameter] = {}
        self.gradients: dict[str, Gradient] = {}
        self._parameters_of = parameters_of

    def __repr__(self) -> str:
        return f"Model({self.name!r}, {len(self.net.proto.op)} operators, {len(self.parameters)} parameters)"

    def _repr_html_(self) -> str:
        """Return it for a notebook: its parameters, and its net."""
        from tazza.graph.html import net_html
        from tazza.runtime.html import heading, table

        rows = [(str(one.blob), str(list(one.shape)), one.kind.value) for one in self.parameters.values()]
        return heading(repr(self)) + table(("parameter", "shape", "kind"), rows) + net_html(self.net.proto, self.name)

    if not TYPE_CHECKING:  # who checks types looks at `LayerMethods`, and refuses what is misspelt

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """Return the layer of that name, as a method of this model."""
            found = None if name.startswith("_") else LAYERS.get(name)
            if found is None:
                raise AttributeError(f"a model has no attribute and no layer {name!r}; {LAYERS.near(name)}")
            return MethodType(found, self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *LAYERS.keys()})

    @property
    def name(self) -> str:
        """The name of the net."""
        return self.net.name

    def with_net(self, net: Net) -> Model:
        """Return this model with another net that layers go to, such as that of a step; parameters are the same."""
        made = copy(self)
        made.net = net
        return made

    def add_parameter(
        self,
        name: str,
        shape: Sequence[int],
        initializer: Initializer | BlobReference,
        kind: ParameterKind = ParameterKind.WEIGHT,
    ) -> BlobReference:
        """Add a parameter, and to the init net what makes it, unless it belongs to the model that this one shares with.

        Args:
            name: gets the current scope in front.
            shape: its extents.
            initializer: what it starts from; or a parameter of this model, which is then used as it is.
            kind: what it is for.

        Raises:
            DuplicateError: this model has a parameter of that name.
            ShapeError: the parameter that is shared has another shape.
            NotFoundError: `initializer` is a blob that is no parameter of this model.
        """
        if isinstance(initializer, BlobReference):
            return self._existing(initializer, tuple(shape))
        full = scoped(name)
        if full in self.parameters:
            raise DuplicateError(
                f"model {self.name!r} has a parameter {full!r} already",
                hint="give the layer another name, or pass the parameter itself in order to share it",
            )
        shared = None if self._parameters_of is None else self._parameters_of.parameters.get(full)
        if shared is None:
            blob = initializer.fill(self.init_net, name, shape)
            self.parameters[full] = Parameter(blob, tuple(shape), kind)
        else:
            _check_shape(shared, tuple(shape))
            self.parameters[full] = shared
        return self.parameters[full].blob

    def _existing(self, blob: BlobReference, shape: tuple[int, ...]) -> BlobReference:
        found = self.parameters.get(blob)
        if found is None:
            raise NotFoundError(
                f"model {self.name!r} has no parameter {str(blob)!r}", hint=f"parameters: {', '.join(self.parameters)}"
            )
        _check_shape(found, shape)
        return found.blob

    def parameter_blobs(self, *kinds: ParameterKind) -> list[BlobReference]:
        """Return the parameters of these kinds (all without any), in the order in which they were added."""
        wanted = kinds if kinds else tuple(ParameterKind)
        return [parameter.blob for parameter in self.parameters.values() if parameter.kind in wanted]

    def add_gradients(self, losses: Sequence[str]) -> dict[str, Gradient]:
        """Append the gradient operators to the net; see `Net.add_gradients`."""
        self.gradients = self.net.add_gradients(losses)
        return self.gradients

    @property
    def parameter_gradients(self) -> dict[str, Gradient]:
        """The gradient of each parameter that the loss depends on."""
        return {name: self.gradients[name] for name in self.parameters if name in self.gradients}


def _check_shape(parameter: Parameter, shape: tuple[int, ...]) -> None:
    if parameter.shape != shape:
        raise ShapeError(
            f"parameter {str(parameter.blob)!r} has the shape {parameter.shape}, it is asked for with {shape}"
        )

"""Rewriting nets: what a transform is, the registry of all, and applying them.

    @transform("common_subexpression", help="...", after=("canonicalise",))
    class CommonSubexpression(Transform):
        def pattern(self, graph, partial, node): ...
        def validator(self, graph, match): ...
        def replace(self, graph, match): ...

A transform has three rules. `pattern`: may this node join this partial match? `validator`: is this match complete and
legal? `replace`: rewrite it. `matching` says which nodes are asked; the largest legal match counts, and parts of one
are matches too (`graph/pattern.py`). `needs` names types of operators of which each match holds one: where a net has
none of them, the module is not even imported. Transforms live in `graph/transforms/`, one a file; the modules are found
by walking that package, and run in the order that `after` demands (by name where it leaves the choice).

What holds for all: the net is checked before and after; no rewrite takes away a blob that is used outside of its match
or must survive; new operators get the device option of those that they stand for, and operators of different devices
are never merged.
"""

from __future__ import annotations

import functools
import graphlib
import importlib
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar, TypeVar

from tazza.data_class import dataclass
from tazza.errors import NotFoundError, TazzaError, TransformError
from tazza.graph.graph import Graph, Node, PassContext, broken
from tazza.graph.naming import name_values, net_of, prelude_of
from tazza.graph.pattern import Matching, largest_match
from tazza.graph.transform_index import PACKAGE, Declared, declared_by, index, module_names
from tazza.graph.verify import check_net, check_operators
from tazza.operator import Spec
from tazza.operator.declaring import WHERE, declared_at
from tazza.proto import NetDef
from tazza.registry import Registry
from tazza.runtime.modules import watch

__all__ = [
    "TRANSFORMS",
    "Graph",
    "Matching",
    "PassContext",
    "Rewritten",
    "Transform",
    "apply_all",
    "apply_each",
    "order",
    "transform",
]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What transforms made of a net.

    Args:
        net: what runs every time.
        prelude: operators that depend on constants only, to be run once; its external outputs are external inputs of
            `net`.
        origins: for each operator of `net` those of the first net that it stands for, such as `Conv 'conv1'`.
        prelude_origins: the same for `prelude`.
        gone: blob of the first net whose last value is not in a blob of its name after a run -> why.
        specs: specs of blobs, where they are known and all values of that name have the same.
        counts: how many times each transform rewrote something.
        relied: external inputs whose shapes decided on a rewriting: it may be wrong for others.
    """

    net: NetDef
    prelude: NetDef
    origins: tuple[tuple[str, ...], ...]
    prelude_origins: tuple[tuple[str, ...], ...]
    gone: Mapping[str, str]
    specs: Mapping[str, Spec]
    counts: Mapping[str, int]
    relied: frozenset[str]


class Transform:
    """Base of all transforms. An object serves one application, so that rules may keep notes in it."""

    name: ClassVar[str] = ""
    after: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[frozenset[str] | None] = None
    """Types of operators of which each match holds at least one; None: any."""
    declared_at: ClassVar[str] = "an unknown place"
    """File and line of the decorator."""
    matching: ClassVar[Matching] = Matching.CONNECTED
    backwards: ClassVar[bool] = False
    """Whether matches are sought from the last node to the first."""
    greedy: ClassVar[bool] = False
    """Whether all nodes join that may: for matches that grow in any order, of which there would be too many to try."""

    def pattern(self, graph: Graph, partial: Sequence[Node], node: Node) -> bool:
        """Whether `node` may join the nodes matched so far; with an empty `partial`, whether a match may begin here."""
        raise NotImplementedError

    def validator(self, graph: Graph, match: Sequence[Node]) -> bool:
        """Whether the match is complete, its rewriting legal; asked for parts too, and last for what is rewritten."""
        del graph, match
        return True

    def replace(self, graph: Graph, match: Sequence[Node]) -> None:
        """Rewrite the match."""
        raise NotImplementedError

    def rewrite(self, graph: Graph) -> int:
        """Rewrite every match, each node being a first one once; return how many there were.

        Raises:
            TazzaError: the transform broke the graph; it is no mistake of the net.
        """
        nodes, count = [node for node in graph.nodes() if not node.hoisted], 0

        def joins(partial: Sequence[Node], node: Node) -> bool:
            return not node.hoisted and self.pattern(graph, partial, node)

        def legal(match: Sequence[Node]) -> bool:
            return self.validator(graph, match)

        for seed in reversed(nodes) if self.backwards else nodes:
            if not seed.active or not joins((), seed):
                continue
            match = largest_match(seed, nodes, self.matching, joins, legal, greedy=self.greedy)
            if match:
                self.replace(graph, match)
                count += 1
        wrong = broken(graph) if count else None
        if wrong is not None:
            wrong.add_context(f"after transform {self.name!r} of net {graph.definition.name!r}")
            try:
                raise wrong
            finally:
                del wrong  # its traceback holds this frame
        return count

    def apply(self, net: NetDef, context: PassContext | None = None) -> Rewritten:
        """Return what this transform alone makes of a net; `net` is not changed.

        Raises:
            TazzaError: the net is not legal, or the transform made one that is not.
        """
        return _apply(net, context, {self.name: functools.partial(_rewritten, self)}, thorough=True)


T = TypeVar("T", bound=type[Transform])


def _load(name: str) -> None:
    if name in module_names():
        importlib.import_module(f"{PACKAGE}.{name}")


TRANSFORMS: Registry[str, type[Transform]] = Registry("transform", loader=_load, listed=module_names)
watch(TRANSFORMS)


def transform(
    name: str, *, help: str, after: Sequence[str] = (), needs: Iterable[str] | None = None
) -> Callable[[T], T]:
    """Return a decorator that registers a class of transforms.

    Args:
        name: of the transform.
        help: one line that says what it does.
        after: transforms that run before it.
        needs: types of operators of which each match holds at least one; None: any.
    """
    declared = declared_at(__name__)

    def decorate(cls: T) -> T:
        with _declared(declared):
            _check_rules(name, cls, after)
            cls.name, cls.after, cls.declared_at = name, tuple(after), declared
            cls.needs = None if needs is None else frozenset(needs)
            TRANSFORMS.register(name, cls, help=help)
        return cls

    return decorate


@contextmanager
def _declared(place: str) -> Generator[None]:
    """Say of an error within in which file and line the transform that it is about is declared."""
    try:
        yield
    except TazzaError as error:
        error.add_context(f"{WHERE}{place}")
        raise


def _check_rules(name: str, cls: type[Transform], after: Sequence[str]) -> None:
    """Check that a class is a transform with the rules that every one must have.

    Raises:
        TransformError: it is not.
    """
    if Transform not in cls.__mro__:  # whatever the type checker was told
        raise TransformError(
            f"transform {name!r}: class {cls.__name__} is no Transform", hint="derive it from Transform"
        )
    if isinstance(after, str):
        raise TransformError(f"transform {name!r}: after is text, {after!r}", hint=f"a tuple of names: ({after!r},)")
    needed = [rule for rule in (Transform.pattern, Transform.replace) if cls.rewrite is Transform.rewrite]
    lacking = [rule.__name__ for rule in needed if getattr(cls, rule.__name__) is rule]
    if lacking:
        raise TransformError(
            f"transform {name!r}: class {cls.__name__} has no {' and no '.join(lacking)}",
            hint="pattern says which nodes match, replace rewrites them; or write rewrite, which does both",
        )


def _declaration(name: str) -> Declared:
    """Return what a transform says of itself; those of tazza are not imported for that."""
    if name in index() and name not in TRANSFORMS.registered():
        return index()[name]
    return declared_by(TRANSFORMS[name].after, TRANSFORMS[name].needs)


def _in_turn(name: str, graph: Graph) -> int:
    """Return how often a transform rewrote the graph; it is not asked where no operator is there that it needs."""
    needs = _declaration(name)["needs"]
    if needs is not None and {node.type for node in graph.nodes()}.isdisjoint(needs):
        return 0
    return _rewritten(TRANSFORMS[name](), graph)


def order() -> list[str]:
    """Return the names of all transforms in the order in which a plan applies them.

    Raises:
        NotFoundError: a transform wants to run after one that is not there.
        TransformError: transforms want to run after each other.
    """
    earlier = {name: _declaration(name)["after"] for name in TRANSFORMS}
    for name, others in earlier.items():
        for other in others:
            if other not in earlier:
                with _declared(TRANSFORMS[name].declared_at):
                    raise NotFoundError(
                        f"transform {name!r} is to run after {other!r}, which is no transform",
                        hint=TRANSFORMS.near(other),
                    )
    try:
        return list(graphlib.TopologicalSorter(earlier).static_order())
    except graphlib.CycleError as error:
        circle: list[str] = error.args[1]
        wrong = TransformError(f"transforms are to run after each other: {' before '.join(map(repr, circle))}")
        for name in dict.fromkeys(circle):
            wrong.add_context(f"{name!r} is {WHERE}{TRANSFORMS[name].declared_at}")
        try:
            raise wrong from None
        finally:
            del wrong  # its traceback holds this frame


def apply_all(net: NetDef, context: PassContext | None = None, *, without: Collection[str] = ()) -> Rewritten:
    """Return what all transforms, but those in `without`, make of a net; `net` is not changed.

    Raises:
        NotFoundError: `without` names a transform that is not there.
        TazzaError: the net is not legal.
    """
    for name in without:
        if name not in TRANSFORMS.keys():
            raise NotFoundError(f"unknown transform {name!r}", hint=TRANSFORMS.near(name))
    chosen = [name for name in order() if name not in without]
    return _apply(net, context, {name: functools.partial(_in_turn, name) for name in chosen}, thorough=False)


def apply_each(net: NetDef, context: PassContext | None = None) -> Iterator[tuple[str, Rewritten]]:
    """Yield each transform's name, in order, with what it and all before it make of a net; the last is `apply_all`'s.

    Raises:
        TazzaError: the net is not legal.
    """
    check_net(net)
    graph, counts = Graph.of(net, context), dict[str, int]()
    made: Rewritten | None = None
    for name in order():
        counts[name] = _in_turn(name, graph)
        if made is None or counts[name]:
            made = result(graph, counts)
        yield name, replace(made, counts=dict(counts))


def _apply(
    net: NetDef, context: PassContext | None, transforms: Mapping[str, Callable[[Graph], int]], *, thorough: bool
) -> Rewritten:
    """Apply transforms one after the other; `thorough` checks the operators of the result anew, changed or not."""
    check_net(net)
    graph = Graph.of(net, context)
    counts = {name: rewrite(graph) for name, rewrite in transforms.items()}
    made = result(graph, counts)
    for checked in (made.prelude, made.net):
        try:
            check_net(checked)
            if thorough:
                check_operators(checked)
        except TazzaError as error:
            error.add_context(f"after the transforms {', '.join(counts)}: they are wrong, not the net")
            raise
    return made


def _rewritten(one: Transform, graph: Graph) -> int:
    """Return how often a transform rewrote the graph.

    Raises:
        TransformError: one of its rules failed; it says where.
        TazzaError: as `Transform.rewrite`.
    """
    try:
        return one.rewrite(graph)
    except (TazzaError, MemoryError, RecursionError):
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        failed = TransformError(f"transform {one.name!r} failed: {type(error).__name__}: {error}")
        failed.add_context(f"in {last.name} of {last.filename}, line {last.lineno}")
        failed.add_context(f"{WHERE}{one.declared_at}")
        try:
            raise failed from error
        finally:
            del failed  # its traceback holds this frame


def result(graph: Graph, counts: Mapping[str, int]) -> Rewritten:
    """Return the nets that a graph stands for by now, and what became of the first one."""
    named = name_values(graph)
    specs: dict[str, Spec] = {}
    unclear: set[str] = set()
    for value, name in named.names.items():
        if value.spec is None or specs.setdefault(name, value.spec) != value.spec:
            unclear.add(name)
    net, prelude = net_of(graph, named), prelude_of(graph, named)
    written = {named.names[value]: value for node in (*named.hoisted, *named.nodes) for value in node.outputs}
    return Rewritten(
        net=net,
        prelude=prelude,
        origins=tuple(node.origins for node in named.nodes),
        prelude_origins=tuple(node.origins for node in named.hoisted),
        gone={
            name: graph.reason(value)
            for name, value in graph.last.items()
            if value.producer is not None and written.get(name) is not graph.present(value)
        },
        specs={name: spec for name, spec in specs.items() if name not in unclear},
        counts=counts,
        relied=frozenset(graph.relied),
    )

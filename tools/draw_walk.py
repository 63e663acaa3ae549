"""Draw the pictures of docs/walk from the code itself: `python -m tools.draw_walk`.

Class pictures show who holds what: fields and annotations of real classes, from some roots on, as far as they lead
inside of the named modules. Sequence pictures show a real run, traced: the calls between the named modules, each once
for every phase, in the order of first occurrence. What the engine oneDNN is needed for is left as it is without it.

The pictures are plain SVG of rectangles, curves and text, written here: what a layout program draws depends on its
version, and these are compared with those that are stored (`tests/docs/test_walk.py`).
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from xml.etree import ElementTree

import numpy as np

from tazza.graph.text import parse_net
from tazza.operator import Operator, why_unavailable
from tazza.registry import note_change
from tazza.workspace import Workspace
from tools.class_fields import ClassPicture, Edge, class_edges, held_by, reachable

FOLDER = Path(__file__).parent.parent / "docs" / "walk"
CHARACTER, LINE, MARGIN = 6.1, 15, 12
"""Width and height of a character of 10 pixels, and the space around things, in pixels."""
COLORS = {
    "proto": "#eadcf4",
    "tensor": "#dbeafe",
    "operator": "#d9f2e3",
    "ops": "#d9f2e3",
    "engines": "#fde8cf",
    "codegen": "#fde8cf",
    "graph": "#fbdfe3",
    "nets": "#fbdfe3",
    "runtime": "#e8e8e8",
}
"""Part of the package -> color of the heads of its boxes."""


# -- runs --------------------------------------------------------------------------------------------------------------

YOU = "you"


@dataclass(frozen=True, slots=True)
class Message:
    """A call from one module into another."""

    caller: str
    callee: str
    function: str


@dataclass(frozen=True, slots=True)
class RunPicture:
    """What is traced: `phases()` does all preparations and gives what is then done, by title."""

    title: str
    modules: tuple[str, ...]
    phases: Callable[[], Mapping[str, Callable[[], object]]]
    engine: str = "gemm"


@dataclass(slots=True)
class Trace:
    """Counts calls between modules while it is switched on."""

    modules: frozenset[str]
    messages: Counter[Message] = field(default_factory=Counter[Message])
    stack: list[str | None] = field(default_factory=list[str | None])

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Take one event of `sys.setprofile`."""
        del argument
        if event == "return" and self.stack:
            self.stack.pop()
        if event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        shown = module in self.modules and _is_shown(frame)
        if shown:
            caller = next((one for one in reversed(self.stack) if one is not None), YOU)
            if caller != module:
                function = frame.f_code.co_qualname.replace("<locals>.", "")
                self.messages[Message(caller, module, function)] += 1
        self.stack.append(module if shown else None)


def _is_shown(frame: FrameType) -> bool:
    name = frame.f_code.co_name
    magic = name.startswith("__") and name not in ("__init__", "__call__")
    return not magic and not name.startswith("<") and not frame.f_code.co_filename.startswith("<")


def traced(picture: RunPicture) -> dict[str, list[tuple[Message, int]]]:
    """Return the messages of each phase with their number; what is only done once in a process has been done before."""
    for act in picture.phases().values():
        act()
    found: dict[str, list[tuple[Message, int]]] = {}
    for title, act in picture.phases().items():
        trace = Trace(frozenset(picture.modules))
        before, collecting = sys.getprofile(), gc.isenabled()
        gc.disable()  # what others left behind must not be cleaned away in the picture
        sys.setprofile(trace)
        try:
            act()
        finally:
            sys.setprofile(before)
            if collecting:
                gc.enable()
        found[title] = list(trace.messages.items())
    return found


# -- drawing -----------------------------------------------------------------------------------------------------------


class Canvas:
    """An SVG that grows."""

    def __init__(self, title: str) -> None:
        """Begin with nothing but a title."""
        self._parts: list[ElementTree.Element] = []
        self._title = title
        self._width = self._height = 0.0

    def _add(self, tag: str, text: str = "", **attributes: object) -> None:
        shown = {key.rstrip("_").replace("_", "-"): _number(value) for key, value in attributes.items()}
        element = ElementTree.Element(tag, shown)
        element.text = text
        self._parts.append(element)

    def reach(self, x: float, y: float) -> None:
        """Be at least so large."""
        self._width, self._height = max(self._width, x + MARGIN), max(self._height, y + MARGIN)

    def text(self, x: float, y: float, text: str, **style: object) -> None:
        """Write a line; x and y are its left end on the base line."""
        self._add("text", text, x=x, y=y, **style)
        self.reach(x + CHARACTER * len(text), y)

    def box(self, x: float, y: float, size: tuple[float, float], fill: str, stroke: str = "#666666") -> None:
        """Draw a rectangle."""
        self._add("rect", x=x, y=y, width=size[0], height=size[1], fill=fill, stroke=stroke)
        self.reach(x + size[0], y + size[1])

    def line(self, path: str, name: str = "", *, dashed: bool = False, color: str = "#444444") -> None:
        """Draw a curve; with a name it is an arrow."""
        style: dict[str, Any] = {"stroke_dasharray": "4 3"} if dashed else {}
        arrow: dict[str, Any] = {"data_edge": name, "marker_end": "url(#tip)"} if name else {}
        self._add("path", d=path, fill="none", stroke=color, **style, **arrow)

    def svg(self) -> str:
        """Return the picture as text."""
        size = {"width": _number(self._width), "height": _number(self._height)}
        root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size})
        root.attrib |= {"font-family": "monospace", "font-size": "10", "role": "img"}
        ElementTree.SubElement(root, "title").text = self._title
        tip = {"id": "tip", "markerWidth": "7", "markerHeight": "6", "refX": "7", "refY": "3", "orient": "auto"}
        marker = ElementTree.SubElement(ElementTree.SubElement(root, "defs"), "marker", tip)
        ElementTree.SubElement(marker, "path", {"d": "M0 0L7 3L0 6z", "fill": "#444444"})
        ElementTree.SubElement(root, "rect", {**size, "fill": "white"})
        root.extend(self._parts)
        ElementTree.indent(root, "")
        return ElementTree.tostring(root, encoding="unicode") + "\n"


def _number(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class Box:
    """Where a class stands."""

    x: float
    y: float
    width: float
    rows: dict[str, float]


def draw_classes(picture: ClassPicture) -> str:
    """Return the picture as SVG: columns by distance from the roots, lines from fields to what they hold."""
    classes = reachable(picture)
    edges = class_edges(classes)
    canvas = Canvas(picture.title)
    boxes = _placed(classes, edges)
    for edge in edges:
        _draw_edge(canvas, edge, boxes)
    for name, box in boxes.items():
        cls = classes[name][0]
        held = held_by(cls)
        height = LINE * (2 + len(held)) + 8
        canvas.box(box.x, box.y, (box.width, height), "white")
        canvas.box(box.x, box.y, (box.width, 2 * LINE), COLORS.get(cls.__module__.split(".")[1], "#eeeeee"))
        canvas.text(box.x + 6, box.y + 12, name, font_weight="bold", font_size=12)
        canvas.text(box.x + 6, box.y + 25, cls.__module__.removeprefix("tazza."), fill="#555555")
        for one in held:
            canvas.text(box.x + 6, box.rows[one.name] + 4, one.text)
    return canvas.svg()


def _placed(classes: Mapping[str, tuple[type, int]], edges: Sequence[Edge]) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    x = float(MARGIN)
    for distance in sorted({distance for _, distance in classes.values()}):
        column = [name for name, (_, far) in classes.items() if far == distance]
        # Under each other in the order of the rows that lead there, so that few lines cross.
        sources = {
            name: [boxes[e.source].rows[e.row] for e in edges if e.target == name and e.row and e.source in boxes]
            for name in column
        }
        column.sort(key=lambda name: sum(sources[name]) / len(sources[name]) if sources[name] else 0.0)
        y, widest = float(MARGIN), 0.0
        for name in column:
            held = held_by(classes[name][0])
            texts = [one.text for one in held] + [name + "  ", classes[name][0].__module__.removeprefix("tazza.")]
            width = CHARACTER * max(map(len, texts)) + 12
            rows = {one.name: y + LINE * (2.6 + i) for i, one in enumerate(held)}
            boxes[name] = Box(x, y, width, rows)
            y += LINE * (2 + len(held)) + 8 + 1.5 * MARGIN
            widest = max(widest, width)
        x += widest + 70
    return boxes


def _draw_edge(canvas: Canvas, edge: Edge, boxes: Mapping[str, Box]) -> None:
    source, target = boxes[edge.source], boxes[edge.target]
    name = f"{edge.source}{'.' + edge.row if edge.row else ' is'} -> {edge.target}"
    y = source.y + LINE if edge.row is None else source.rows[edge.row]
    start, goal = source.x + source.width, target.y + LINE
    if target.x > source.x:
        path = f"M{start:.0f} {y:.0f}C{start + 40:.0f} {y:.0f} {target.x - 40:.0f} {goal:.0f} {target.x:.0f} {goal:.0f}"
    else:
        end = target.x + target.width
        far = max(start, end) + 40
        canvas.reach(far - 10, goal)
        path = f"M{start:.0f} {y:.0f}C{far:.0f} {y:.0f} {far:.0f} {goal:.0f} {end:.0f} {goal:.0f}"
    canvas.line(path, name, dashed=edge.row is None)


def draw_run(picture: RunPicture) -> str:
    """Return the picture as SVG: a line down for each module, an arrow for each call between two."""
    phases = traced(picture)
    canvas = Canvas(picture.title)
    order = dict.fromkeys(m for found in phases.values() for one, _ in found for m in (one.caller, one.callee))
    step = max(CHARACTER * (len(_short(module)) + 3) for module in order)
    places = {module: MARGIN + step * (i + 0.5) for i, module in enumerate(order)}
    y = float(MARGIN + 3 * LINE)
    drawn: list[tuple[float, str, Message | None, int]] = []
    for title, found in phases.items():
        drawn.append((y + LINE, title, None, 0))
        y += 2 * LINE
        for message, count in found:
            drawn.append((y + LINE, message.function, message, count))
            y += 1.6 * LINE
        y += LINE
    for module, x in places.items():
        canvas.line(f"M{x:.0f} {MARGIN + 2 * LINE}V{y:.0f}", color="#bbbbbb")
        width = step - 10
        canvas.box(
            x - width / 2,
            MARGIN,
            (width, 1.6 * LINE),
            COLORS.get(module.split(".")[1] if module != YOU else YOU, "#eeeeee"),
        )
        canvas.text(x - CHARACTER * len(_short(module)) / 2, MARGIN + LINE, _short(module))
    number = 0
    for at, text, message, count in drawn:
        if message is None:
            canvas.box(MARGIN, at - LINE, (step * len(places), 1.4 * LINE), "#f4f4f4", "#f4f4f4")
            canvas.text(MARGIN + 6, at, text, font_weight="bold")
            continue
        number += 1
        start, end = places[message.caller], places[message.callee]
        name = f"{number} {_short(message.caller)} -> {_short(message.callee)}.{text}"
        canvas.line(f"M{start:.0f} {at + 4:.0f}H{end:.0f}", name)
        label = f"{text} x {count}" if count > 1 else text
        left = min(start, end) + 6
        canvas.box(left, at - 9, (CHARACTER * len(label), 11), "white", "none")
        canvas.text(left, at, label)
    return canvas.svg()


def _short(module: str) -> str:
    return module.removeprefix("tazza.")


# -- the pictures ------------------------------------------------------------------------------------------------------

CONV = "Y = Conv(X, W, b; group=2, kernels=[3, 2], strides=[2, 1], dilations=[1, 2], pads=[1, 0, 2, 1])"
SHAPES = {"X": (2, 6, 7, 8), "W": (10, 3, 3, 2), "b": (10,), "V": (12, 10, 1, 1)}


def _workspace() -> Workspace:
    workspace = Workspace()
    for name, shape in SHAPES.items():
        workspace.feed(name, np.ones(shape, np.float32))
    return workspace


def _operator(engine: str) -> Mapping[str, Callable[[], object]]:
    """Make an operator and run it twice."""
    workspace, made = _workspace(), list[Operator]()
    definition = parse_net(f"{CONV} engine={engine}").op[0]
    note_change()  # engines are asked what they have
    if engine == "onednn":
        _forget()
    return {
        "operator = Operator(conv, workspace)": lambda: made.append(Operator(definition, workspace)),
        "operator.run()": lambda: made[0].run(),
        "operator.run()  # again": lambda: made[0].run(),
    }


def _plan() -> Mapping[str, Callable[[], object]]:
    """Make a plan and run it twice."""
    workspace = _workspace()
    net = parse_net("net: walk", "type: plan", "in: X, W, b, V", "out: Z", CONV, "R = Relu(Y)", "Z = Conv(R, V)")
    net.op[2].arg.add(name="kernel", i=1)
    _forget()
    return {
        "plan = workspace.create_net(net)": lambda: workspace.create_net(net),
        "plan.run()": lambda: workspace.net("walk").run(),
        "plan.run()  # again": lambda: workspace.net("walk").run(),
    }


def _forget() -> None:
    """Let primitives be made, not found, and engines be asked what they have."""
    from tazza.engines.onednn.primitive import clear_primitives

    note_change()
    clear_primitives()


def _modules(package: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tazza.{package}.{name}" for name in names)


_GEMM = _modules("engines.gemm", "conv", "column", "memory")
_OPERATOR = _modules("operator", "operator", "schema", "argument", "engine", "choice", "kernel", "view")

CLASSES = {
    "classes-operator": ClassPicture(
        "What an Operator holds", (*_OPERATOR, "tazza.proto"), ("Operator", "OperatorDef", "Launch", "Operands")
    ),
    "classes-gemm": ClassPicture(
        "A convolution on gemm",
        (*_GEMM, "tazza.operator.kernel", "tazza.ops.nn.window"),
        ("ConvLaunch", "ConvGradientLaunch", "SharedBuffer"),
    ),
    "classes-onednn": ClassPicture(
        "A convolution on oneDNN",
        (
            *_modules("engines.onednn", "nn.conv", "primitive", "descriptor", "launch"),
            *("tazza.operator.kernel", "tazza.tensor.layout", "tazza.ops.nn.window"),
        ),
        ("LaidOut", "SequenceLaunch", "Attributes", "Geometry", "Opaque", "NativeCall"),
    ),
    "classes-plan": ClassPicture(
        "A plan",
        (
            *_modules("nets.plan", "net", "partition", "compiler", "program", "instance"),
            *("tazza.graph.memory", "tazza.operator.native_calls", "tazza.runtime.segment"),
        ),
        ("PlanNet", "NativeCalls"),
    ),
}
RUNS = {
    "run-gemm": RunPicture(
        "A convolution on gemm, made and run", (*_OPERATOR, *_GEMM, "tazza.ops.nn.conv"), lambda: _operator("gemm")
    ),
    "run-onednn": RunPicture(
        "A convolution on oneDNN, made and run",
        (
            *_modules("operator", "operator", "choice", "kernel", "reorder", "native_calls"),
            "tazza.runtime.segment",
            *_modules("engines.onednn", "prepare", "nn.conv", "shape.copy", "primitive", "launch"),
        ),
        lambda: _operator("onednn"),
        "onednn",
    ),
    "run-plan": RunPicture(
        "A plan, made and run",
        (
            *_modules("nets.plan", "net", "partition", "compiler", "program", "instance"),
            *("tazza.graph.transform", "tazza.graph.memory", "tazza.runtime.segment"),
            *("tazza.operator.choice", "tazza.engines.onednn.prepare", "tazza.engines.onednn.launch"),
        ),
        _plan,
        "onednn",
    ),
}


def main() -> None:
    """Draw all pictures."""
    for name, picture in CLASSES.items():
        (FOLDER / f"{name}.svg").write_text(draw_classes(picture), encoding="utf-8")
    for name, picture in RUNS.items():
        reason = why_unavailable("Conv", "cpu", picture.engine)
        if reason is None:
            (FOLDER / f"{name}.svg").write_text(draw_run(picture), encoding="utf-8")
        else:
            print(f"{name} is left as it is: {picture.engine} is not there: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()

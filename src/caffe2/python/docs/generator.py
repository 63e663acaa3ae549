"""Pages about operators, from their schemas."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from caffe2.python import workspace
from caffe2.python.docs.formatter import Markdown

__all__ = ["DocGenerator", "DocUploader", "Markdown", "OpDocGenerator", "OperatorDoc", "OperatorEngine"]

OpSchema: Any = workspace.C.OpSchema
ENGINE = "_ENGINE_"
DOCUMENTED_FIRST, UNDOCUMENTED = 1, 4


class DocUploader:
    """Takes a text somewhere; one's own defines `upload`."""

    def __init__(self) -> None:
        """Make one."""

    def upload(self, text: str) -> None:
        """Take a text."""


class DocGenerator:
    """Makes a text by a formatter, and gives it to an uploader."""

    def __init__(self, formatter: Any, uploader: Any) -> None:
        """Begin with nothing."""
        self.formatter = formatter
        self.uploader = uploader
        self.content_body: str = ""

    def create_body(self) -> None:
        """Make the text; one's own defines it."""

    def update(self) -> None:
        """Give the text to the uploader."""
        self.uploader.upload(self.content_body)


class OpDocGenerator(DocGenerator):
    """Makes a page of all operators."""

    def getOperatorDoc(self, name: str, schema: Any, priority: int) -> Any:
        """Return what writes the section of an operator."""
        return OperatorDoc(name, schema, priority)

    def getOperatorEngine(self, name: str) -> Any:
        """Return what tells of an engine, whose name is `<operator>_ENGINE_<engine>`."""
        return OperatorEngine(name)

    def getOperators(self) -> list[Any]:
        """Return what writes the sections of all operators: those with a description first, each by name."""
        names = workspace.RegisteredOperators()
        found: list[Any] = []
        for name in names:
            schema = None if ENGINE in name else OpSchema.get(name)
            if schema is not None:
                found.append(self.getOperatorDoc(name, schema, DOCUMENTED_FIRST if schema.doc else UNDOCUMENTED))
        by_name = {one.name: one for one in found}
        for engine in (self.getOperatorEngine(name) for name in names if ENGINE in name):
            if engine.base_op_name in by_name:
                by_name[engine.base_op_name].addEngines([engine])
        return sorted(found, key=lambda one: (one.priority, one.name))

    def createBody(self) -> None:
        """Let the formatter gather all sections."""
        for one in self.getOperators():
            one.generateSchema(self.formatter)
        self.content_body += self.formatter.dump()


class OperatorEngine:
    """An engine of an operator."""

    def __init__(self, name: str) -> None:
        """Take `<operator>_ENGINE_<engine>`."""
        self.op_name = name
        self.base_op_name, self.engine = name.split(ENGINE, 1)

    def getDeviceImpl(self) -> list[tuple[str, str]]:
        """Return device and kernel of those that there are."""
        device = OpSchema.get_cpu_impl(self.op_name), OpSchema.get_cuda_impl(self.op_name)
        return [(name, impl) for name, impl in zip(("CPU", "CUDA"), device, strict=True) if impl]

    def generateDoc(self, formatter: Any) -> None:
        """Add a line for each device."""
        for device, impl in self.getDeviceImpl():
            formatter.addLine(f"{self.engine} on {device}: {impl}")


class OperatorDoc:
    """Writes the section of an operator."""

    def __init__(self, name: str, schema: Any, priority: int) -> None:
        """Take an operator and its schema; of a smaller `priority` come first."""
        self.name = name
        self.schema = schema
        self.priority = priority
        self.engines: list[Any] = []

    def addEngines(self, engines: Sequence[Any]) -> None:
        """Take engines of it."""
        self.engines += engines

    def generateDoc(self, formatter: Any) -> None:
        """Add its description."""
        if self.schema.doc:
            formatter.parseAndAdd(self.schema.doc)
            formatter.addLinebreak()
        else:
            formatter.addLine("No documentation yet.")

    def generateTable(self, formatter: Any, tuples: Any, title_row: Any, title: str | None) -> None:
        """Add a table of names and descriptions, under a title if there is one."""
        if not tuples:
            return
        if title:
            formatter.addHeader(title, 3)
        formatter.addTable([*([title_row] if title_row else []), *map(list, tuples)])

    def generateInterface(self, formatter: Any) -> None:
        """Add a table of arguments, inputs and outputs."""
        parts = (
            ("Arguments", [(arg.name, arg.description) for arg in self.schema.args]),
            ("Inputs", self.schema.input_desc),
            ("Outputs", self.schema.output_desc),
        )
        rows: list[tuple[str, str]] = []
        for title, described in parts:
            if described:
                rows.append((self._formatted(formatter, "addEmphasis", title), ""))
                rows += [
                    (self._formatted(formatter, "addCode", name, True), self._formatted(formatter, "parseAndAdd", text))
                    for name, text in described
                ]
        if rows:
            self.generateTable(formatter, rows, None, "Interface")

    @staticmethod
    def _formatted(formatter: Any, method: str, *values: Any) -> str:
        own = formatter.clone()
        getattr(own, method)(*values)
        return own.dump()

    def generateCodeLink(self, formatter: Any) -> None:
        """Add where its code is."""
        formatter.addHeader("Code", 3)
        formatter.addLinebreak()
        formatter.addCodeLink(self.schema.file)

    def getInfo(self, formatter: Any, name: str, impl: str) -> Any:
        """Return what is said of a device; nothing here."""
        del formatter, name, impl

    def generateDevices(self, formatter: Any) -> None:
        """Add the kernels of each device."""
        formatter.addHeader("Devices", 3)
        kernels = (("CPU", OpSchema.get_cpu_impl(self.name)), ("GPU", OpSchema.get_cuda_impl(self.name)))
        told = [self.getInfo(formatter, device, impl) for device, impl in kernels if impl]
        formatter.addList([one for one in told if one])

    def generateEngines(self, formatter: Any) -> None:
        """Add the engines."""
        if self.engines:
            formatter.addHeader("Engines", 3)
        for engine in self.engines:
            engine.generateDoc(formatter)

    def generateSchema(self, formatter: Any) -> None:
        """Add the whole section."""
        formatter.addHeader(self.name, 2)
        self.generateDoc(formatter)
        self.generateInterface(formatter)
        self.generateCodeLink(formatter)
        self.generateDevices(formatter)
        self.generateEngines(formatter)
        formatter.addBreak()


if __name__ == "__main__":
    argparse.ArgumentParser(description="Print a page of all operators.").parse_args()
    pages = OpDocGenerator(Markdown(), DocUploader())
    pages.createBody()
    print(pages.content_body)

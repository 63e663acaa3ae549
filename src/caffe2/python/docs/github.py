"""Pages about operators as a site of that time took them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from caffe2.python.docs.formatter import Markdown
from caffe2.python.docs.generator import DocUploader, OpDocGenerator, OperatorDoc, OperatorEngine
from tazza.runtime.files import write_bytes_atomically

__all__ = ["GHMarkdown", "GHOpDocGenerator", "GHOpDocUploader", "GHOperatorDoc", "GHOperatorEngine", "getCodeLink"]

HEAD = """---
docid: operators-catalog
title: Operators Catalog
layout: operators
permalink: /docs/operators-catalogue.html
---
* TOC
{:toc}
"""


class GHOpDocUploader(DocUploader):
    """Prints pages."""

    def __init__(self) -> None:
        """Make one."""

    def upload(self, content_body: str) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- the old name
        """Print a page."""
        print(content_body)


class GHMarkdown(Markdown):
    """Markdown as that site wanted it."""

    def addHeader(self, text: str, h: int = 1) -> None:
        """Add a header of a level, between empty lines."""
        self.addLine(f"\n{'#' * h} {text}\n", True)

    def addDocHeader(self) -> None:
        """Add what stands at the head of the page."""
        self.addRaw(HEAD)

    def addTable(self, table: Sequence[Sequence[str]], noTitle: bool = False) -> None:
        """Add a table below a line."""
        assert len(table) > 1, "a table has two rows at least"
        self.addLinebreak()
        self.addLine(" | ".join(["----------"] * len(table[0])))
        for row in table:
            self.addLine(" | ".join(row))

    def addTableHTML(self, table: Sequence[Sequence[str]], noTitle: bool = False) -> None:
        """Add a table of HTML."""
        rows = ("".join(f"<td>{cell}\n</td>" for cell in row) for row in table)
        self.addRaw(f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>")


def getCodeLink(formatter: Any, schema: Any) -> str:
    """Return where the code of an operator is, as the formatter writes it."""
    own = formatter.clone()
    own.addLink(schema.file, schema.file)
    return own.dump()


class GHOperatorEngine(OperatorEngine):
    """An engine of an operator."""

    def generateDoc(self, formatter: Any) -> None:
        """Add on which devices it is."""
        for device, _ in self.getDeviceImpl():
            formatter.addCode(self.engine, True)
            formatter.addRaw(" on ")
            formatter.addEmphasis(device, 1)


class GHOperatorDoc(OperatorDoc):
    """Writes the section of an operator."""

    def generateCodeLink(self, formatter: Any) -> None:
        """Add where its code is."""
        formatter.addHeader("Code", 3)
        formatter.addRaw(getCodeLink(formatter, self.schema))

    def getInfo(self, formatter: Any, name: str, impl: str) -> str:
        """Return a device and its kernel."""
        own = formatter.clone()
        own.addEmphasis(name, 1)
        own.addRaw(" ")
        own.addCode(impl, True)
        return own.dump()

    def generateSchema(self, formatter: Any) -> None:
        """Add the whole section."""
        formatter.addHeader(self.name, 2)
        self.generateDoc(formatter)
        self.generateInterface(formatter)
        self.generateCodeLink(formatter)
        formatter.addBreak()


class GHOpDocGenerator(OpDocGenerator):
    """Makes a page of all operators."""

    def getOperatorDoc(self, name: str, schema: Any, priority: int) -> Any:
        """Return what writes the section of an operator."""
        return GHOperatorDoc(name, schema, priority)

    def getOperatorEngine(self, name: str) -> Any:
        """Return what tells of an engine."""
        return GHOperatorEngine(name)

    def createBody(self) -> None:
        """Let the formatter gather the head and all sections."""
        self.formatter.addDocHeader()
        for one in self.getOperators():
            one.generateSchema(self.formatter)
        self.content_body += self.formatter.dump()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a page of all operators.")
    parser.add_argument("path", help="where it goes")
    pages = GHOpDocGenerator(GHMarkdown(), GHOpDocUploader())
    pages.createBody()
    write_bytes_atomically(Path(parser.parse_args().path), pages.content_body.encode())

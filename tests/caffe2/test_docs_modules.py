"""`caffe2.python.docs`: pages of operators; the marks are compared with those of Caffe2 in `test_module_nets.py`."""

from __future__ import annotations

from typing import Any

import pytest

from caffe2.python import workspace
from caffe2.python.docs import formatter, generator, github


class Kept(generator.DocUploader):
    """Keeps a page."""

    text = ""

    def upload(self, text: str) -> None:
        self.text = text


def section(kind: Any, markdown: Any, name: str) -> str:
    """Return the section of an operator."""
    page = markdown()
    kind(name, workspace.C.OpSchema.get(name), 1).generateSchema(page)
    return page.dump()


def test_a_section_tells_of_arguments_inputs_and_outputs() -> None:
    text = section(generator.OperatorDoc, formatter.Markdown, "Clip")
    assert text.startswith("\n## Clip\n")
    order = ["### Interface", "*Arguments*", "`min`", "`max`", "*Inputs*", "`X`", "*Outputs*", "`Y`", "### Code", "---"]
    places = [text.index(part) for part in order[:-1]]
    assert places == sorted(places)
    assert text.endswith("---\n\n")


def test_the_site_has_its_own_form() -> None:
    text = section(github.GHOperatorDoc, github.GHMarkdown, "Clip")
    assert text.startswith("\n\n## Clip\n\n")
    assert "\n---------- | ----------\n*Arguments* | \n" in text
    assert "### Devices" not in text


@pytest.mark.parametrize(
    ("kind", "markdown"),
    [(generator.OpDocGenerator, formatter.Markdown), (github.GHOpDocGenerator, github.GHMarkdown)],
)
def test_a_page_has_a_section_for_every_operator(kind: Any, markdown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["Conv", "Abs", "Relu"]
    monkeypatch.setattr(workspace, "RegisteredOperators", lambda: names)
    kept = Kept()
    pages = kind(markdown(), kept)
    pages.createBody()
    pages.update()
    assert kept.text == pages.content_body
    assert [line for line in kept.text.splitlines() if line.startswith("## ")] == ["## Abs", "## Conv", "## Relu"]


def test_an_engine_is_named_after_its_operator() -> None:
    engine = generator.OperatorEngine("Conv_ENGINE_EIGEN")
    assert (engine.base_op_name, engine.engine) == ("Conv", "EIGEN")
    with pytest.raises(ValueError, match="unpack"):
        generator.OperatorEngine("Conv")


def test_one_of_ones_own_has_to_say_how() -> None:
    with pytest.raises(NotImplementedError, match="Formatter has to define this"):
        formatter.Formatter().addLine("x")

"""Files of labels in the forms that people have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tazza.errors import FormatError
from tazza.images import read_labels

TENCH = ("tench, Tinca tinca", "goldfish", "n3 shark")
FORMS = {
    "lines": "tench, Tinca tinca\n\ngoldfish\nn3 shark\n",
    "synsets": "n01440764 tench, Tinca tinca\nn01443537 goldfish\nn01484850 n3 shark",
    "numbered": "2: n3 shark\n0: tench, Tinca tinca\n1: goldfish\n",
    "columns": "0\ttench, Tinca tinca\n1\tgoldfish\n2\tn3 shark\n",
    "python": "{0: 'tench, Tinca tinca',\n 1: 'goldfish',\n 2: \"n3 shark\"}",
    "list": '["tench, Tinca tinca", "goldfish", "n3 shark"]',
    "table": '{"1": "goldfish", "2": "n3 shark", "0": "tench, Tinca tinca"}',
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, tmp_path: Path) -> None:
    (tmp_path / "labels").write_text(FORMS[form])
    assert read_labels(tmp_path / "labels") == TENCH


def test_a_class_without_a_label_is_its_number(tmp_path: Path) -> None:
    (tmp_path / "labels").write_text("1 goldfish\n3 shark\n")
    assert read_labels(tmp_path / "labels") == ("0", "goldfish", "2", "shark")


BAD = ["", "\n\n", "[]", "{}", "[1, 2]", '{"a": "b"}', "1 a\n1 b\n", '{"99999999999": "a"}']


@pytest.mark.parametrize("text", BAD)
def test_no_labels(text: str, tmp_path: Path) -> None:
    (tmp_path / "labels").write_text(text)
    with pytest.raises(FormatError, match="label"):
        read_labels(tmp_path / "labels")

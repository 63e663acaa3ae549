"""Build the site: `python -m tools.site.build [FOLDER]`, which needs the extra `docs`.

Pages are gathered into `FOLDER/pages`, MkDocs makes HTML of them in `FOLDER/html`, and a warning of it is an error.
Nothing on the site comes from elsewhere when it is read: no fonts, no scripts, and the search runs in the browser.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.site.navigation import navigation
from tools.site.pages import DOCS, ROOT, gathered, pictures

OUT = ROOT / "out" / "site"
SETTINGS = "mkdocs.json"
"""JSON is YAML too, and MkDocs reads that."""
TEXTS = "pages"
HTML = "html"


def write_pages(folder: Path) -> dict[str, Any]:
    """Write all pages, pictures and the settings of MkDocs into a folder, where they replace what was; return those."""
    texts = folder / TEXTS
    shutil.rmtree(texts, ignore_errors=True)
    pages = gathered()
    for page in pages:
        path = texts / page.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.text, encoding="utf-8")
    for picture in pictures():
        path = texts / (ROOT / picture).relative_to(DOCS)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / picture, path)
    found = settings() | {"nav": navigation(pages)}
    (folder / SETTINGS).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def settings() -> dict[str, Any]:
    """Return what MkDocs is told, but for the navigation."""
    options = {
        "allow_inspection": False,
        "docstring_style": "google",
        "heading_level": 2,
        "members_order": "alphabetical",
        "merge_init_into_class": True,
        "separate_signature": True,
        "show_root_heading": True,
        "show_signature_annotations": True,
        "show_source": False,
    }
    python = {"paths": [str(ROOT / "src")], "options": options}
    return {
        "site_name": "tazza",
        "site_description": "A deep-learning runtime for nets in the Caffe2 format",
        "docs_dir": TEXTS,
        "site_dir": HTML,
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.tabs", "navigation.top", "navigation.prune", "search.highlight", "toc.follow"],
            "palette": [
                {"scheme": "default", "primary": "brown", "toggle": {"icon": "material/weather-night", "name": "dark"}},
                {"scheme": "slate", "primary": "brown", "toggle": {"icon": "material/weather-sunny", "name": "light"}},
            ],
        },
        "extra": {"generator": False},
        "plugins": ["search", {"mkdocstrings": {"handlers": {"python": python}}}],
        "markdown_extensions": [
            {"toc": {"permalink": True}},
            "tables",
            "attr_list",
            "md_in_html",
            "pymdownx.superfences",
            {"pymdownx.highlight": {"use_pygments": True}},
        ],
        "validation": {
            "omitted_files": "warn",
            "absolute_links": "warn",
            "unrecognized_links": "warn",
            "anchors": "warn",
        },
    }


def build(folder: Path) -> Path:
    """Build the site in a folder; return that of its pages.

    Raises:
        CalledProcessError: MkDocs found something wrong, and said what.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_pages(folder)
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(folder / SETTINGS)]
    # The theme tells of a successor of MkDocs on every run.
    subprocess.run(words, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder / HTML


if __name__ == "__main__":
    print(build(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT) / "index.html")

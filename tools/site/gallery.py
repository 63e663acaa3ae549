"""The gallery: every picture of the documents, by the page that shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from posixpath import relpath

from tools.site.links import HEADING, links, target

HEAD = """# Gallery

Every picture of these pages. Each was drawn by tazza, from a run or from the code; the page that it is from says how.
"""


def gallery_page(pages: Mapping[str, str], pictures: Iterable[str]) -> str:
    """Return the page as it reads in `docs`: pictures under the titles of pages that show them.

    Args:
        pages: path -> text, both of all pages, from the root of the project.
        pictures: paths of all pictures.
    """
    left = list(pictures)
    parts = [HEAD]
    for page, text in sorted(pages.items(), key=lambda item: item[0].startswith("docs/") is False):
        shown = {target(page, link): link.text for link in links(text) if link.picture and not link.elsewhere}
        here = [picture for picture in shown if picture in left]
        title = HEADING.search(text)
        if not here or title is None:
            continue
        parts.append(f"## [{title[1]}]({relpath(page, 'docs')})\n")
        parts += [f"![{shown[picture]}]({relpath(picture, 'docs')})\n\n*{shown[picture]}*\n" for picture in here]
        left = [picture for picture in left if picture not in here]
    parts += [f"![{picture}]({relpath(picture, 'docs')})\n" for picture in left]
    return "\n".join(parts)

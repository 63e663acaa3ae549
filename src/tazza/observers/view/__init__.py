"""A net as a page and as a picture: its graph, what is known of each operator, passes, memory, and what ran when.

    write_page("net.html", document_of(Subject(net)))

`scene.py` says what is drawn, `layout.py` where, `facts.py` what is told of it; `document.py` puts all into one JSON
document, which `page.py` writes into a page that needs no network, and `picture.py` draws as SVG.
"""

from tazza.observers.view.document import Ran, Subject, document_of
from tazza.observers.view.page import page_of, write_page
from tazza.observers.view.picture import picture_of, write_picture

__all__ = ["Ran", "Subject", "document_of", "page_of", "picture_of", "write_page", "write_picture"]

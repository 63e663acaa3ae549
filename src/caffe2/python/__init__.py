"""What old scripts import: `from caffe2.python import workspace, core`. The work is done in tazza.

A folder that holds the old extension as well is a mixture of two frameworks: an old torch was installed over this
package, or under it. Which files are whose nobody can tell then, so that the import is refused.
"""

from __future__ import annotations

from pathlib import Path

if any(Path(folder).is_dir() and next(Path(folder).glob("caffe2_pybind11_state*"), None) for folder in __path__):
    raise ImportError(
        f"{__path__[0]} holds the extension of the Caffe2 that came with torch before 2.5, and tazza's modules: "
        "two frameworks lie in one folder. Uninstall torch and tazza, then install tazza alone, or with a newer torch"
    )

from caffe2.python._absent import install

install()

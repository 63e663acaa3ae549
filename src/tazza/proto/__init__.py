"""The messages of Caffe2's files, wire-compatible with the originals.

All messages and enums can be imported from here: `from tazza.proto import NetDef, TensorProto`. Those of caffe2.proto
are there at once, since nothing works without them; the modules of the others are imported when one of their names is
asked for. The `.proto` files beside this one say what each message and field means; `make proto` compiles them.
`tazza.proto.message` reads and writes messages with checks.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

from tazza.proto.caffe2_pb2 import *  # noqa: F403 (the list of names is the generated module's)

if TYPE_CHECKING:
    from tazza.proto.caffe2_legacy_pb2 import *  # noqa: F403
    from tazza.proto.hsm_pb2 import *  # noqa: F403
    from tazza.proto.metanet_pb2 import *  # noqa: F403
    from tazza.proto.predictor_consts_pb2 import *  # noqa: F403
    from tazza.proto.prof_dag_pb2 import *  # noqa: F403
    from tazza.proto.torch_pb2 import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """Find a message, an enum or one of its values in the generated modules that were not imported yet."""
        # Only such names start with a capital; anything else is a submodule, which Python finds by itself.
        if name[0].isupper():
            for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
                if module.name.endswith("_pb2"):
                    values = vars(importlib.import_module(f"{__name__}.{module.name}"))
                    if name in values:
                        globals()[name] = values[name]
                        return values[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

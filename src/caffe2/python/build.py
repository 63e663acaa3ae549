"""How it was built: it was not, so that there are no options."""

from __future__ import annotations

from caffe2.python import _import_c_extension as C

CAFFE2_NO_OPERATOR_SCHEMA = C.define_caffe2_no_operator_schema
build_options = C.get_build_options()

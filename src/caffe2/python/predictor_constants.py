"""Names of roles in predictor files."""

from __future__ import annotations

from caffe2.proto import predictor_consts_pb2

predictor_constants = predictor_consts_pb2.PredictorConsts()

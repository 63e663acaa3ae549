"""Base of tests of conversions to and from ONNX."""

"""What converted nets to and from ONNX, by its old names."""

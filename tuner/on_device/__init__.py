"""Modules that build and run code: they import TVM and onnxruntime, and are themselves imported on demand."""

"""What builds and runs code: imports TVM and onnxruntime, and is imported by name when there is something to run."""

"""Text that people write: quantities with units, YAML, error messages."""

"""User-facing text: quantities with units, YAML files, error messages."""

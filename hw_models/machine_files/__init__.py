"""Machine files: presets, loading, overrides, reference of all parameters."""

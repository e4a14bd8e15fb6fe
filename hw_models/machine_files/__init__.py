"""Machine files: presets, loading, overrides, the reference of all keys."""

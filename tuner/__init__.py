"""Real code and good tiles: TVM code generation, tuners and measuring on devices."""

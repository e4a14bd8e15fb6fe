"""Programs of instructions: their builder, reusable code templates (fragments), and list scheduling."""

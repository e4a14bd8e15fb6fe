"""From a schedule to a program: everything is decided, instructions are only written out."""

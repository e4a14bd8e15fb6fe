"""Lowering of a schedule to a program of instructions, without further decisions."""

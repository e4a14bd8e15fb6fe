"""Kinds of machines that programs are searched for: one file for each, behind one protocol."""

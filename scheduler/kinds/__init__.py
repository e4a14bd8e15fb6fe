"""The kinds of machines that can be scheduled for."""

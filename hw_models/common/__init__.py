"""What specs of several kinds of machines have in common."""

"""``python -m dsascape`` is the command ``dsascape``."""

from dsascape.experiments.shell.cli import entry_point

if __name__ == "__main__":
    entry_point()

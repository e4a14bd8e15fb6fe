"""Command lines taken apart: mistakes in one line, with what may be meant; the version and the engines."""

import argparse
import itertools
import re
import sys
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, NoReturn

from dsascape.experiments.question.version import __version__
from dsascape.wording import did_you_mean


class UsageError(ValueError):
    """A command line that cannot be parsed."""


class Parser(argparse.ArgumentParser):
    """Argument parser that reports mistakes in one line, with the commands, options and choices that may be meant."""

    _has_commands = False

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")

    def add_subparsers(self, **keywords: Any) -> Any:
        """Add commands as the base class does; their options are for their own parsers to look at."""
        self._has_commands = True
        return super().add_subparsers(**keywords)

    def _options(self) -> list[str]:
        """Return the long options that the usage names, and that for help, which it names in short."""
        return ["--help", *dict.fromkeys(re.findall(r"--[a-z][\w-]*", self.format_usage()))]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as the base class does, and refuse unknown options by name before whatever else is missing."""
        options = self._options()
        for text in itertools.takewhile(lambda each: each != "--", () if self._has_commands else args or ()):
            name, is_long = text.partition("=")[0], text.startswith("--")
            if is_long and not any(option.startswith(name) for option in options):
                self.error(f"there is no option {name}{did_you_mean(name, options)}")
            if not is_long and f"-{name}" in options:
                self.error(f"there is no option {name}{did_you_mean(name, options)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [str(each) for each in action.choices or ()]
        if choices and value not in choices:
            meant = did_you_mean(str(value), [*choices, *self._options()])
            raise argparse.ArgumentError(action, f"has {value!r}{meant}; needs one of: {', '.join(choices)}")


class Version(argparse.Action):
    """Prints the version and the simulation engines that this installation has, the one in use first; then exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        available: Callable[[], list[str]] = resolve_name("dsascape.hw_models.simulation.engines:available_engines")
        sys.stdout.write(f"{parser.prog} {__version__} (engines: {', '.join(available())})\n")
        parser.exit()

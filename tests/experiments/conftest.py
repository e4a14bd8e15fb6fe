"""Fixtures for the tests of commands."""

import pytest

from tests.experiments.terminal import Terminal


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)

"""Fixtures that the tests of commands share."""

import pytest

from tests.experiments.terminal import Terminal


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)

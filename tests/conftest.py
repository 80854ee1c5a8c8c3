"""The option that writes expected texts anew (of passes and lessons), and what tests share."""

import pytest

from minicc.api import jitted


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write expected texts anew")


@pytest.fixture
def however_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are compiled even where NumPy does the same as soon."""
    monkeypatch.setattr(jitted, "is_little", lambda module, sizes: False)

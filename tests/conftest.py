"""The option that writes expected texts anew: those of the passes and of the lessons."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write expected texts anew")

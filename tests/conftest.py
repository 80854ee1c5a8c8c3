"""What all tests share: an option that writes expected texts anew, and few collections of cycles.

The expected texts are those of the passes and of the lessons.
"""

import gc

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write expected texts anew")


def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave the tests out of all later collections of cycles: they are a third of a million."""
    gc.freeze()
    gc.enable()

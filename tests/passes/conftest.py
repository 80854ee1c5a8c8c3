"""The option that rewrites the expected halves of the text tests."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="rewrite what the passes are expected to print"
    )

"""`python -m tests.conformance`: all tests in all forms, with counts; 1 where one fails anew."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from tests.conformance.cases import FORMS, Case, cases, failure, light, light_files, listed


def every_case() -> Iterator[Case]:
    """All cases; the large networks are read one after the other."""
    yield from cases()
    yield from map(light, light_files())


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="the onnx package's tests, in three forms")
    parser.add_argument("--form", choices=list(FORMS), action="append")
    parser.add_argument("--match", default="", help="only tests with this in their names")
    given = parser.parse_args()
    known, bad = listed(), 0
    for name in given.form or FORMS:
        passed, failed, began = 0, 0, time.monotonic()
        for case in every_case():
            if given.match not in case.name:
                continue
            text = failure(case, FORMS[name])
            passed += not text
            failed += bool(text)
            if text and case.name not in known:
                bad += 1
                print(f"{case.name}, {name}: {text[:300]}", flush=True)
        taken = time.monotonic() - began
        print(f"{name}: {passed} passed, {failed} failed, {taken:.0f} s", flush=True)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

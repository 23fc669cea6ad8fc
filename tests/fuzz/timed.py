"""Tests on made-up cases: some in `make test`, as many as the time allows in `make fuzz`."""

import functools
import os
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

SECONDS = float(os.environ.get("OUTTREES_FUZZ_SECONDS", "0"))  # for each test; 0: the short form
FAILURES = Path(__file__).parent / "failures"
counts: Counter[str] = Counter()  # test → cases


def fuzzed(*strategies, examples=30, **named):
    """Return a decorator like hypothesis.given that repeats a test until its time is over.

    The short form draws the same cases every time. The long one draws others in every batch; the
    smallest case that fails is shown, and belongs among the cases of the test, or in failures/.
    """

    def decorate(body):
        @functools.wraps(body)
        def counted(*arguments, **options):
            counts[body.__name__] += 1
            body(*arguments, **options)

        def test():
            until = time.monotonic() + SECONDS
            number = 0
            while number == 0 or time.monotonic() < until:
                form = settings(
                    max_examples=200 if SECONDS else examples,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )
                seed(number)(form(given(*strategies, **named)(counted)))()
                number += 1

        test.__name__ = body.__name__
        test.__doc__ = body.__doc__
        return test

    return decorate

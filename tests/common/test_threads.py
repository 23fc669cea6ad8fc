"""Work shared between threads is all done, once, and its errors arrive."""

import os
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from outtrees import OutTreeDistribution
from outtrees._common import threads as threads_module
from outtrees._common.threads import blas_threads, in_threads, over_rows


def test_every_row_once():
    for shape in ((1, 1), (700, 900), (3, 400_000), (900_000, 1)):
        matrix, seen = np.zeros(shape), set()

        def work(rows, matrix=matrix, seen=seen):
            seen.add(threading.get_ident())
            matrix[rows] += 1.0

        over_rows(matrix, work)
        assert (matrix == 1.0).all()
        assert len(seen) <= max(1, blas_threads())


def test_the_limit_of_the_linear_algebra_holds():
    with threadpool_limits(1):
        assert blas_threads() == 1
    with threadpool_limits(2):
        assert blas_threads() <= 2


def test_an_error_in_a_thread_arrives_after_all_have_ended():
    ended = []

    def work(i):
        if i == 1:
            raise ArithmeticError("one of them")
        ended.append(i)

    with pytest.raises(ArithmeticError, match="one of them"):
        in_threads(work, 3)
    assert sorted(ended) == [0, 2]
    in_threads(work, 0)
    assert sorted(ended) == [0, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system starts processes otherwise")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    in_threads(lambda i: None, 2)
    child = os.fork()
    if child == 0:
        os._exit(0 if in_threads(lambda i: None, 2) is None else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_change_no_more_than_rounding(monkeypatch):
    monkeypatch.setattr(threads_module, "_IN_CACHE", 5000)
    monkeypatch.setattr(threads_module, "_WORTH_THREADS", 5000)
    log_beta = np.random.default_rng(0).normal(size=(150, 150))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            dist = OutTreeDistribution(log_beta)
            found.append((dist.log_z, dist.edge_marginals))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-14)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-14)

"""Work shared between threads is all done, once, and its errors arrive."""

import os
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from outtrees import Ancestry, OutTreeDistribution
from outtrees._common import threads as threads_module
from outtrees._common.threads import (
    Product,
    allowed_threads,
    in_threads,
    multiply,
    one_thread,
    over_rows,
    own_threads,
    side_by_side,
)


def test_every_row_once():
    for shape in ((1, 1), (700, 900), (3, 400_000), (900_000, 1)):
        matrix, seen = np.zeros(shape), set()

        def work(rows, matrix=matrix, seen=seen):
            seen.add(threading.get_ident())
            matrix[rows] += 1.0

        over_rows(matrix, work)
        assert (matrix == 1.0).all()
        assert len(seen) <= max(1, allowed_threads())


def test_the_limit_of_the_linear_algebra_holds():
    with threadpool_limits(1):
        assert allowed_threads() == 1
    with threadpool_limits(2):
        assert allowed_threads() <= 2


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


def test_nobody_waits_for_a_thread_that_is_busy():
    held, go = threading.Event(), threading.Event()

    def hold_all_others():
        held.set()
        go.wait(30)

    threads_module._ask_others(hold_all_others, os.cpu_count() or 1)
    try:
        if (os.cpu_count() or 1) > 1:
            assert held.wait(10)
        done = []
        in_threads(lambda i: in_threads(lambda j: done.append((i, j)), 3), 3)
        assert sorted(done) == [(i, j) for i in range(3) for j in range(3)]
    finally:
        go.set()


@pytest.mark.parametrize(("threads", "expected"), [(1, [1, 1]), (2, [1, 1]), (5, [3, 2])])
def test_two_tasks_share_the_threads(threads, expected):
    first, second = [], []
    side_by_side(threads, 10**9, first.append, second.append)
    assert [*first, *second] == expected


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


def products(rng, shapes):
    made = []
    for (m, k, n), added in shapes:
        left, right = rng.normal(size=(m, k)), rng.normal(size=(k, n))
        made.append(Product(left, right, np.full((m, n), 2.0), added=added))
    return made


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "shapes",
    [
        [((30, 7, 4), False)],
        [((3, 7, 40), True), ((20, 7, 9), False)],
        [((0, 7, 4), True), ((5, 0, 4), True), ((50, 6, 2), True)],
        [((2, 2, 2), False)] * 6,
    ],
)
def test_products_side_by_side(threads, shapes, monkeypatch):
    monkeypatch.setattr(threads_module, "_WORTH_SHARING", 0)
    made = products(np.random.default_rng(0), shapes)
    multiply(threads, *made)
    for product in made:
        expected = product.left @ product.right + 2.0 * product.added
        np.testing.assert_allclose(product.out, expected, rtol=1e-13)


def test_shares_of_products_are_equal_and_few_are_cut():
    made = products(np.random.default_rng(1), [((600, 20, 10), True), ((10, 20, 300), True)])
    shares = threads_module._shares(made, 3)
    total = sum(product.work for product in made)
    assert [sum(p.work for p in share) for share in shares] == [total // 3] * 3
    assert [len(share) for share in shares] == [1, 1, 1]


def test_threads_of_the_linear_algebra_are_held_and_given_back():
    with threadpool_limits(2):
        before = [library.num_threads for library in threads_module._blas()]
        with own_threads() as allowed:
            assert allowed == allowed_threads() == min(before)
            assert {library.num_threads for library in threads_module._blas()} == {1}
            with own_threads() as inner, one_thread():
                assert inner == allowed
                assert allowed_threads() == 1
            assert allowed_threads() == allowed
        assert [library.num_threads for library in threads_module._blas()] == before


def test_the_last_of_several_threads_gives_them_back():
    with threadpool_limits(2):
        before = [library.num_threads for library in threads_module._blas()]
        held, go = threading.Event(), threading.Event()

        def other():
            with own_threads():
                held.set()
                go.wait(10)

        thread = threading.Thread(target=other)
        with own_threads():
            thread.start()
            held.wait(10)
        assert {library.num_threads for library in threads_module._blas()} == {1}
        go.set()
        thread.join()
        assert [library.num_threads for library in threads_module._blas()] == before


def test_a_fit_holds_the_linear_algebra_to_one_thread(monkeypatch):
    # Its threads turn in circles while they wait: a hundred times the time on a busy machine.
    seen = set()
    whole = Ancestry._learned

    def learned(self, *args):
        seen.update(library.num_threads for library in threads_module._blas())
        return whole(self, *args)

    monkeypatch.setattr(Ancestry, "_learned", learned)
    with threadpool_limits(2):
        Ancestry(kinds={"n": "continuous"}).fit({"id": ["a", "b", "c"], "n": [1.0, 2.0, 4.0]})
    assert seen == {1}

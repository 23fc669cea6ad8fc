"""Parameters of estimators: what they may be, and what Ancestry has of scikit-learn's base."""

import pickle
import subprocess
import sys
from numbers import Integral, Real

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import Interval as TheirInterval
from sklearn.utils._param_validation import (
    InvalidParameterError,
    validate_parameter_constraints,
)
from sklearn.utils._param_validation import StrOptions as TheirStrOptions

from outtrees import Ancestry
from outtrees._common.parameters import Interval, StrOptions, check_params

# What takes longer to import than a small table takes to fit.
SLOW = ("sklearn", "pandas", "narwhals", "joblib", "scipy.stats", "matplotlib", "networkx")
CONSTRAINTS = [
    [(Interval, Integral, 1, 50, "both"), None],
    [(Interval, Real, 0, None, "neither")],
    [(Interval, Real, 0, 1, "right"), (StrOptions, {"auto"})],
    [(Interval, Integral, None, 3, "neither"), str],
    [(Interval, Real, 0, None, "left")],
    ["boolean"],
    ["verbose"],
    ["array-like", None],
    ["random_state", np.random.Generator],
    [callable, dict],
]
VALUES = [0, 1, 2.5, -1, 50, 51, np.int64(3), np.float32(0.5), float("nan"), float("inf"), None]
VALUES += ["auto", "other", "", [], [1], {}, np.ones(2), np.float64(1), print]
VALUES += [np.random.default_rng(0), np.random.RandomState(0), 2**32]


class Estimator:
    def __init__(self, value, constraints):
        self._parameter_constraints = {"x": constraints}
        self._value = value

    def get_params(self, deep=True):
        return {"x": self._value}


def theirs(part):
    if not isinstance(part, tuple):
        return part
    kind, *rest = part
    if kind is Interval:
        return TheirInterval(*rest[:-1], closed=rest[-1])
    return TheirStrOptions(*rest)


def refuses(check):
    try:
        check()
    except InvalidParameterError:
        return True
    return False


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
def test_values_are_those_that_scikit_learn_takes(constraints):
    ours = [part[0](*part[1:]) if isinstance(part, tuple) else part for part in constraints]
    other = {"x": list(map(theirs, constraints))}
    for value in VALUES:
        mine = refuses(lambda v=value: check_params(Estimator(v, ours)))
        known = refuses(lambda v=value: validate_parameter_constraints(other, {"x": v}, "E"))
        assert mine == known, value


def test_true_is_no_number():
    for constraint in (Interval(Integral, 0, None, closed="left"), Integral):
        with pytest.raises(InvalidParameterError, match="Got True instead"):
            check_params(Estimator(True, [constraint]))
    check_params(Estimator(True, ["boolean"]))


def test_ancestry_is_cloned_and_set_as_estimators_are():
    ancestry = Ancestry(id="case", links=2)
    assert repr(ancestry) == "Ancestry(id='case', links=2)"
    for other in (clone(ancestry), pickle.loads(pickle.dumps(ancestry))):
        assert repr(other) == repr(ancestry)
    assert ancestry.set_params(links=3).links == 3
    with pytest.raises(ValueError, match="'link' is not a parameter of Ancestry"):
        ancestry.set_params(link=3)
    assert "links" in ancestry._repr_html_()


def imported(code):
    """Return what a program has imported at its end."""
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(shown.stdout.split())


def test_import_of_the_package_is_quick():
    slow = {"numpy", "scipy", "numba", *SLOW}
    assert not imported("import outtrees") & slow


def test_a_small_fit_does_without_what_is_slow_to_import():
    code = (
        "from outtrees import Ancestry\n"
        "table = {'id': list('abcd'), 'date': [1, 2, 3, 4], 'x': [0.1, 0.4, 0.2, 0.9]}\n"
        "model = Ancestry(waiting_mean=1.0, parameters='fitted').fit(table)\n"
        "model.parents(), model.describe()"
    )
    assert not imported(code) & set(SLOW)


def test_a_small_run_does_without_what_is_slow_to_import(tmp_path):
    (tmp_path / "t.csv").write_text("id,date,x\na,1,0.1\nb,2,0.4\nc,3,0.2\nd,4,0.9\n")
    arguments = ["ancestry", str(tmp_path / "t.csv"), "--waiting-mean", "1", "--quiet"]
    arguments += ["--parameters", "fitted", "--out", str(tmp_path / "results")]
    code = (
        "from outtrees.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert end.code == 0"
    )
    assert not imported(code) & set(SLOW)
    assert (tmp_path / "results" / "parents.csv").exists()


def test_classes_that_extend_an_estimator_may_have_parameters_of_their_own():
    class Anything(Ancestry):
        def __init__(self, **options):
            super().__init__(**options)

    class Extra(Ancestry):
        def __init__(self, id=None, extra=1):
            super().__init__(id=id)
            self.extra = extra

    assert repr(Anything()) == "Anything()"
    assert Extra(extra=2).get_params() == {"id": None, "extra": 2}
    check_params(Extra(extra=2))

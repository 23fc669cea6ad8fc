"""Modules that were renamed keep their old names for one version, with a warning."""

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("outtrees.mutations", "outtrees.models", "GaussianMutation"),
        ("outtrees.estimators", "outtrees", "OutTreeDensity"),
        ("outtrees.units", "outtrees.parallel", "run_units"),
        ("outtrees.likelihood", "outtrees.inference.likelihood", "log_likelihood"),
        ("outtrees.views.exchange", "outtrees.io", "write_csv"),
    ],
)
def test_an_old_name_warns_and_works(old, new, name):
    module = import_module(old)  # without a warning: tools import every module of a package
    with pytest.warns(FutureWarning, match=rf"{old} goes with version 0\.3; write from {new} imp"):
        found = getattr(module, name)
    assert found is getattr(import_module(new), name)
    with pytest.raises(AttributeError, match=f"module '{old}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_the_usual_import_warns():
    with pytest.warns(FutureWarning, match="from outtrees.models import PoissonMutation"):
        from outtrees.mutations import PoissonMutation  # noqa: F401

"""Models come back from disk as they were."""

import re
import subprocess
import sys
import warnings
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from outtrees import OutTreeDensity, __version__
from outtrees.errors import ModelFileError
from outtrees.models import (
    MUTATIONS,
    CategoricalMutation,
    GaussianMutation,
    KernelMutation,
    MixtureMutation,
    Mutation,
    PoissonMutation,
    ProductMutation,
    make_mutation,
)
from outtrees.records import read_records

pytest.importorskip("safetensors")

from outtrees.io import CLASSES, load, save

RNG = np.random.default_rng(0)
CONTINUOUS = RNG.normal(size=(40, 3)) @ RNG.normal(size=(3, 3))
COUNTS = RNG.poisson(3.0, size=(40, 2)).astype(float)
BITS = RNG.integers(0, 2, size=(40, 3)).astype(float)


def same(one, two):
    """Whether two values are equal in every bit, layout and type included."""
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        assert one.flags.c_contiguous == two.flags.c_contiguous
        if one.dtype == object:
            for a, b in zip(one.ravel(), two.ravel(), strict=True):
                same(a, b)
        else:
            assert one.tobytes() == two.tobytes()
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            same(a, b)
    elif isinstance(one, dict):
        assert list(one) == list(two)
        for key in one:
            same(one[key], two[key])
    elif isinstance(one, Mutation):
        for f in fields(one):
            same(getattr(one, f.name), getattr(two, f.name))
    elif isinstance(one, float) and np.isnan(one):
        assert np.isnan(two)
    else:
        assert one == two


def fitted(X=CONTINUOUS[:15], **options):
    """A fit of a few steps: what it has learned does not matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return OutTreeDensity(**{"mutation": "gaussian", "max_iter": 3, **options}).fit(X)


def round_trip(model, tmp_path, **options):
    return load(save(model, tmp_path / "model.safetensors", **options), **options)


@pytest.mark.parametrize("name", MUTATIONS)
@pytest.mark.parametrize("started", [False, True], ids=["template", "started"])
def test_every_mutation(tmp_path, name, started):
    mutation = make_mutation(name)
    X = {"poisson": COUNTS, "bernoulli": BITS, "categorical": BITS}.get(name, CONTINUOUS)
    if started:
        mutation = mutation.start(X, random_state=0)
    back = round_trip(mutation, tmp_path)
    same(back, mutation)
    if started:
        # A copy: of X with itself NumPy computes half a product and mirrors it, rounding otherwise.
        new = X.copy()
        same(back.log_conditional(new, new), mutation.log_conditional(new, new))
        same(back.log_root(new), mutation.log_root(new))


def test_mutations_within_mutations(tmp_path):
    X = np.column_stack([CONTINUOUS, COUNTS, BITS])
    mutation = ProductMutation(
        [
            (MixtureMutation([GaussianMutation("diag"), GaussianMutation(transition="zero")]), [0]),
            (KernelMutation(n_landmarks=7, gamma=0.3), [1, 2]),
            (PoissonMutation(), (3, 4)),
            (CategoricalMutation("full", categories=[[0, 1, 2]] * 3), [5, 6, 7]),
        ]
    ).start(X, random_state=1)
    back = round_trip(mutation, tmp_path)
    same(back, mutation)
    same(back.log_conditional(X, X), mutation.log_conditional(X, X))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mutation": "mixture", "n_components": 2, "random_state": 3},
        {"mutation": "kernel", "random_state": np.random.RandomState(5)},
        {"mutation": GaussianMutation("diag", "identity")},
        {"early_stopping": True, "random_state": np.random.default_rng(5)},
        {"n_components": "auto", "mutation": "mixture", "cv": 2, "random_state": 0},
    ],
    ids=lambda options: ",".join(options),
)
def test_density(tmp_path, options):
    model = fitted(**options)
    model.tree_  # noqa: B018, made when asked for: not saved, but made again
    back = round_trip(model, tmp_path)
    new = np.random.default_rng(9).normal(size=(25, 3))
    assert back.score_samples(new).tobytes() == model.score_samples(new).tobytes()
    assert back.edge_marginals_.tobytes() == model.edge_marginals_.tobytes()
    learned = {k: v for k, v in vars(model).items() if k.endswith("_")}
    assert set(learned) == {k for k in vars(back) if k.endswith("_")}
    for name, value in learned.items():
        same(getattr(back, name), value)
    for name, value in model.get_params(deep=False).items():
        if name == "random_state" and hasattr(value, "normal"):
            assert back.random_state.normal() == value.normal()
        else:
            same(getattr(back, name), value)


def test_density_with_names_and_unfitted(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(CONTINUOUS[:15], columns=["a", "ä b", "c"])
    back = round_trip(fitted(frame), tmp_path)
    same(back.feature_names_in_, np.array(["a", "ä b", "c"], dtype=object))
    with pytest.raises(ValueError, match="feature names should match"):
        back.score_samples(frame[["c", "a", "ä b"]])
    assert round_trip(OutTreeDensity("gaussian", tol=1e-3), tmp_path).tol == 1e-3


def test_records(tmp_path):
    table = {
        "id": ["a", "b", "c"],
        "when": ["2020-03-05", "2020-03", ""],
        "p": ["root", "a", ""],
        "g": [1, 1, 1],
    }
    records = read_records(
        table, kinds={"p": "parent", "g": "group"}, sequences={"a": "AC", "b": "AN", "c": ""}
    )
    back = round_trip(records, tmp_path)
    assert back.describe() == records.describe()
    assert back.known_parents == records.known_parents == {0: -1, 1: 0}
    same(back.groups, records.groups)
    for one, two in zip(back.columns, records.columns, strict=True):
        for f in fields(one):
            same(getattr(one, f.name), getattr(two, f.name))


@dataclass(frozen=True)
class Box:
    """A class of somebody else's."""

    contents: object = None
    inner: object = field(default=None)


VALUES = {
    "numbers": [0, -1, 2**70, 0.1, 1e-320, -0.0, float("inf"), float("-inf"), float("nan"), True],
    "text": ["", "ä", '"sha256":"' + "0" * 64 + '"', "\0", "</script>", "\\", "\u202e"],
    "sets": [{"b", "a"}, frozenset({(1, 2)}), set()],
    "nested": {"a": (1, [2, (3,)], {}), 5: None, (1, 2): {"b": ()}},
    "C": np.arange(6.0).reshape(2, 3),
    "F": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "empty": np.zeros((0, 3)),
    "0-d": np.array(3.5),
    "strided": np.arange(10.0)[::3].copy(),
    "types": [np.ones(3, dtype=t) for t in "?bBhHiIlLqQefd"],
    "odd floats": np.array([np.nan, np.inf, -0.0, 5e-324]),
    "scalars": [np.float64(0.1), np.int64(-3), np.bool_(True), np.float32(0.1), np.str_("x")],
    "days": np.array(["2020-03-05", "NaT"], dtype="datetime64[D]"),
    "words": np.array([["a", "bcd"], ["", "ä"]]),
    "objects": np.array(["a", None, 3, (1, 2)], dtype=object),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(tmp_path, name):
    back = round_trip(Box(VALUES[name], Box(VALUES[name])), tmp_path, classes=[Box])
    same(back.contents, VALUES[name])
    same(back.inner.contents, VALUES[name])


def test_byte_order_and_strides_do_not_matter(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    views = [array.astype(">f8"), array[::-1], array[:, ::2], array.T[1:], np.broadcast_to(2.0, 3)]
    back = round_trip(Box(views), tmp_path, classes=[Box])
    for one, two in zip(back.contents, views, strict=True):
        np.testing.assert_array_equal(one, two)
        one[...] = 0  # its own, writable memory


def test_one_array_in_two_places_stays_one(tmp_path):
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    back = round_trip(
        Box([array, array, array.copy(), array.T], Box(array)), tmp_path, classes=[Box]
    )
    one, two, other, turned = back.contents
    assert one is two is back.inner.contents
    assert other is not one
    same(turned, array.T)


def test_the_same_model_gives_the_same_file(tmp_path):
    model = fitted()
    one, two = save(model, tmp_path / "one"), save(model, tmp_path / "two")
    assert one.read_bytes() == two.read_bytes()


def test_other_tools_can_look_inside(tmp_path):
    from safetensors import safe_open

    path = save(GaussianMutation().start(CONTINUOUS), tmp_path / "model.safetensors")
    with safe_open(path, "numpy") as file:
        assert '"class":"GaussianMutation"' in file.metadata()["outtrees"]
        assert all(file.get_tensor(key).dtype == np.float64 for key in file.keys())  # noqa: SIM118


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3, "must be a mutation or an estimator; got int"),
        ([1], "must be a mutation or an estimator; got list"),
        (KernelMutation(kernel=lambda a, b: 1.0), r"^KernelMutation\.kernel is a function, which"),
        (OutTreeDensity(KernelMutation(max)), r"^OutTreeDensity\.mutation\.kernel is a builtin_f"),
        (OutTreeDensity({"a": [b""]}), r"^OutTreeDensity\.mutation\['a'\]\[0\] is a bytes, which"),
        (OutTreeDensity(mutation=np.array([1j])), r"^OutTreeDensity\.mutation is an array of comp"),
        (Box(), r"^Box is a Box, which cannot be saved; .*classes=\[\.\.\.\]"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, model, message):
    with pytest.raises(ModelFileError, match=message):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_holds_itself_is_refused(tmp_path):
    circle = []
    circle.append(circle)
    with pytest.raises(ModelFileError, match="nested too deep, or holds itself"):
        save(OutTreeDensity(mutation=circle), tmp_path / "model")


def test_a_class_of_the_same_name_is_not_the_class(tmp_path):
    impostor = type("GaussianMutation", (GaussianMutation,), {})
    with pytest.raises(ModelFileError, match="is a GaussianMutation, which cannot be saved"):
        save(impostor(), tmp_path / "model")


def test_every_allowed_class_exists():
    from outtrees.io.model_classes import allowed_classes, find_class

    for name in CLASSES:
        cls = find_class(allowed_classes(), name)
        assert cls.__name__ == name
        assert cls.__module__ == CLASSES[name] or not CLASSES[name].startswith("outtrees")


def test_every_mutation_of_the_package_is_allowed():
    kinds = {cls.__name__ for cls in Mutation.__subclasses__() if cls.__module__ != __name__}
    exported = {name for name in kinds if hasattr(sys.modules["outtrees.models"], name)}
    assert exported <= set(CLASSES)


def test_another_process_reads_it(tmp_path):
    model = fitted()
    path = save(model, tmp_path / "model")
    code = (
        "import sys; from outtrees.io import load; "
        "print(load(sys.argv[1]).score_samples([[0.5, 1.0, -1.0]])[0].hex())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == model.score_samples([[0.5, 1.0, -1.0]])[0].hex()


def test_dropped_mass_of_files_of_version_0_1():
    """A named tuple of another name in an Ancestry, three numbers in a density or classifier."""
    from outtrees.candidates.dropped_mass import DroppedMass
    from outtrees.io.model_classes import current_attributes
    from outtrees.io.model_values import Decoder

    parts = {"mean": 0.1, "error": 0.01, "n_records": 200, "kind": "bound", "bound": 0.5}
    node = {"kind": "named", "class": "LostMass", "fields": parts}
    assert Decoder(CLASSES, {}).decode(node, "dropped_mass_") == DroppedMass(**parts)
    three = {"dropped_mass_": 0.1, "dropped_mass_error_": 0.01, "dropped_mass_bound_": None}
    for T, kind in ((200, "exact"), (201, "estimate")):
        found = current_attributes({"X_": np.zeros((T, 1)), **three})
        assert list(found) == ["X_", "dropped_mass_"]
        assert found["dropped_mass_"] == DroppedMass(0.1, 0.01, 200, kind, None)


def test_projected_places_of_files_of_version_0_1():
    from outtrees.io.model_values import Decoder

    for reason, projected in (
        ("found by name, km east and north of the centre of lat, lon", True),
        ("found by name, x, y", False),
    ):
        fields = {"name": "place", "kind": "place", "values": [[0.0, 1.0]], "levels": None}
        fields |= {"text": ["50.0, 7.0"], "reason": reason}
        node = {"kind": "dataclass", "class": "Column", "fields": fields}
        assert Decoder(CLASSES, {}).decode(node, "columns").projected == projected


# A PoissonMutation, started on [[1.0], [4.0], [2.0]].
OLD = Path(__file__).parent / "saved_by_0_1_0.safetensors"


def test_models_of_version_0_1_are_read():
    same(load(OLD), PoissonMutation().start([[1.0], [4.0], [2.0]]))


@pytest.mark.parametrize("cause", ["format", "class"])
def test_what_cannot_be_read_of_an_older_version_names_both(cause, monkeypatch):
    if cause == "format":
        monkeypatch.setattr("outtrees.io.model_files.OLDEST", 2)
    else:
        monkeypatch.delitem(CLASSES, "PoissonMutation")
    expected = (
        r"saved by outtrees 0\.1\.0 and cannot be read by outtrees "
        rf"{re.escape(__version__)}; fit and save it again, or load it with outtrees 0\.1\.0"
    )
    with pytest.raises(ModelFileError, match=expected):
        load(OLD)

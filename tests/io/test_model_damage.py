"""Files that are no models: damaged, hostile or from elsewhere; none runs code or fills memory."""

import gzip
import hashlib
import json
import os
import pickle
import re
import struct
import tracemalloc
import warnings

import joblib
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from outtrees import OutTreeDensity
from outtrees.errors import ModelFileError
from outtrees.models import PoissonMutation

pytest.importorskip("safetensors")

from outtrees.io import FORMAT, load, save

X = np.random.default_rng(0).normal(size=(20, 2))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a short fit is a fit
        model = OutTreeDensity("gaussian", max_iter=2).fit(X)
    return save(model, tmp_path_factory.mktemp("good") / "model").read_bytes()


@pytest.fixture
def loading(tmp_path):
    path = tmp_path / "model"

    def load_bytes(data, **options):
        path.write_bytes(data)
        return load(path, **options)

    return load_bytes


def header_end(data):
    return 8 + int.from_bytes(data[:8], "little")


def test_cut_at_every_byte(good, loading):
    for cut in range(len(good)):
        with pytest.raises(ModelFileError, match="truncated or damaged"):
            loading(good[:cut])
    with pytest.raises(ModelFileError, match="truncated or damaged"):
        loading(good + b"\0")


def test_one_bit_flipped(good, loading):
    rng = np.random.default_rng(0)
    end = header_end(good)
    places = [*range(end), *rng.integers(end, len(good), size=2000).tolist()]
    for place, bit in zip(places, rng.integers(8, size=len(places)).tolist(), strict=True):
        damaged = bytearray(good)
        damaged[place] ^= 1 << bit
        with pytest.raises(ModelFileError, match="checksum mismatch"):
            loading(bytes(damaged))


def rewritten(good, change, header_change=lambda header: None):
    """Return the file with its JSON changed and a checksum that fits: a forger's work."""
    end = header_end(good)
    header = json.loads(good[8:end])
    about = json.loads(header["__metadata__"]["outtrees"])
    change(about)
    about["sha256"] = "0" * 64
    header["__metadata__"]["outtrees"] = json.dumps(about, separators=(",", ":"))
    header_change(header)
    text = json.dumps(header, separators=(",", ":")).encode()
    data = struct.pack("<Q", len(text)) + text + good[end:]
    digest = hashlib.sha256(data).hexdigest().encode()
    place = re.search(rb'\\"sha256\\":\\"(0{64})\\"', data).start(1)
    return data[:place] + digest + data[place + 64 :]


def test_the_forger_can_write_files_that_load(good, loading):
    model = loading(rewritten(good, lambda about: None))
    assert model.score_samples(X).tobytes() == loading(good).score_samples(X).tobytes()


def newer(about):
    about.update(format=FORMAT + 2, needs="7.1")


def other_class(about):
    about["model"]["class"] = "Popen"


def inner_class(about):
    about["model"]["fitted"]["mutation_"]["class"] = "os.system"


def parameter(about):
    about["model"]["params"]["shell"] = True


def inner_parameter(about):
    about["model"]["fitted"]["mutation_"]["fields"]["__class__"] = "x"


def method(about):
    about["model"]["fitted"]["score_samples"] = 1


def attribute(about):
    about["model"]["fitted"]["__init_"] = about["model"]["fitted"]["score_"] = 1
    about["model"]["fitted"]["__dict__"] = 1


def computed(about):
    about["model"]["fitted"]["tree_"] = 1


def bad_value(about):
    about["model"]["fitted"]["mutation_"]["fields"]["prior_strength"] = -1


def kind(about):
    about["model"] = {"kind": "exec", "code": "1"}


def inner_of_kind(about):
    about["model"] = {"kind": "_class__", "code": "1"}


def no_array(about):
    about["model"]["fitted"]["X_"]["name"] = "999"


def forgotten_array(about):
    del about["model"]["fitted"]["X_"]


def deep(about):
    node = about["model"]["fitted"]
    for _ in range(200):
        node["X_"] = {"kind": "tuple", "items": [node.get("X_", 1)]}


def generator(about):
    state = {"kind": "dict", "items": [["bit_generator", "seed"]]}
    about["model"]["params"]["random_state"] = {"kind": "generator", "state": state}


def long_text(about):
    items = ["x" * 10_000] + ["y"] * 200_000
    about["model"]["fitted"]["words_"] = {
        **{"kind": "objects", "text": True, "shape": [200_001]},
        "items": items,
    }


def shape(about):
    node = {"kind": "objects", "text": False, "shape": [10**12], "items": [1]}
    about["model"]["fitted"]["words_"] = node


def dtype(about):
    about["model"]["fitted"]["X_"]["dtype"] = "O"


FORGED = {
    newer: rf"^model: written by format {FORMAT + 2}; this version reads <= {FORMAT}; .* >= 7.1",
    other_class: "^model: model: class 'Popen' is not allowed",
    inner_class: r"model\.mutation_: class 'os\.system' is not allowed",
    parameter: r"model \(OutTreeDensity\): unknown parameter 'shell'",
    inner_parameter: r"model\.mutation_ \(GaussianMutation\): unknown parameter '__class__'",
    method: r"model \(OutTreeDensity\): unknown attribute 'score_samples'",
    attribute: r"unknown attribute '__init_'",
    computed: r"unknown attribute 'tree_'",
    bad_value: r"model\.mutation_: ArgumentError: .*prior_strength",
    kind: "model: unknown kind 'exec'",
    inner_of_kind: "model: unknown kind '_class__'",
    no_array: r"model\.X_: KeyError: '999'",
    forgotten_array: "belongs to nothing; the file is refused",
    deep: "nested too deep",
    generator: "unknown generator 'seed'",
    long_text: r"model\.words_: its arrays and texts would take more than",
    shape: r"model\.words_: ValueError: cannot reshape",
    dtype: r"model\.X_: unknown dtype 'O'",
}


@pytest.mark.parametrize("change", FORGED, ids=lambda change: change.__name__)
def test_forged_files_are_refused(good, loading, change):
    with pytest.raises(ModelFileError, match=FORGED[change]):
        loading(rewritten(good, change))


def test_arrays_that_claim_more_than_there_is(good, loading):
    def claim(header):
        name = next(name for name in header if name != "__metadata__")
        header[name].update(shape=[2**37], data_offsets=[0, 2**40])  # 1 TiB

    with pytest.raises(ModelFileError, match="its arrays cannot be read"):
        loading(rewritten(good, lambda about: None, claim))
    for size in (2**40, 2**63 + 5, 2**64 - 1):
        with pytest.raises(ModelFileError, match="truncated or damaged"):
            loading(struct.pack("<Q", size) + good[8:])


def test_json_that_is_none(good, loading):
    def no_json(header):
        header["__metadata__"]["outtrees"] = '{"sha256":"' + "0" * 64 + '",'

    def deep_json(header):
        text = '{"sha256":"' + "0" * 64 + '","model":' + "[" * 100_000
        header["__metadata__"]["outtrees"] = text

    def nan(header):
        header["__metadata__"]["outtrees"] = '{"sha256":"' + "0" * 64 + '","model":NaN,"format":1}'

    for change in (no_json, deep_json, nan):
        with pytest.raises(
            ModelFileError, match="not a model of outtrees: its header cannot be read"
        ):
            loading(rewritten(good, lambda about: None, change))


def models(one, n):
    """Return the JSON of a model that holds n mutations made of the same arrays."""
    return {
        "kind": "estimator",
        "class": "OutTreeDensity",
        "params": {},
        "fitted": {"mutations_": [one] * n},
    }


def bomb(tmp_path, change):
    """Return the bytes of a file that holds three arrays of 100,000 numbers, its JSON changed."""
    ones = np.ones(100_000)
    model = PoissonMutation(root_rate=ones, immigration=ones, branching=ones)
    good = save(model, tmp_path / "one").read_bytes()
    node = json.loads(json.loads(good[8 : header_end(good)])["__metadata__"]["outtrees"])["model"]
    return rewritten(good, lambda about: about.update(model=change(node)))


def test_one_array_named_many_times_fills_no_memory(tmp_path, loading):
    """Each mutation copies its arrays: 300 times 2.4 MB from a file of 2.4 MB."""
    data = bomb(tmp_path, lambda node: models(node, 300))
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=r"would take more than .* far more than the file"):
        loading(data)
    assert tracemalloc.get_traced_memory()[1] < 250 * len(data)
    tracemalloc.stop()
    assert len(loading(bomb(tmp_path, lambda node: models(node, 20))).mutations_) == 20


def test_bytes_that_become_floats_count_as_floats(tmp_path, loading):
    data = bomb(tmp_path, lambda node: models(node, 4))
    with pytest.raises(ModelFileError, match=r"would take more than 9\.0 MB"):
        loading(data, max_bytes=9_000_000)


def test_many_cells_beside_a_long_one_fill_no_memory(good, loading):
    """Text arrays give all cells the room of the longest."""
    cells = ["x" * 20_000] + ["y"] * 20_000
    node = {"kind": "objects", "text": True, "shape": [len(cells)], "items": cells}

    def change(about):
        about["model"]["fitted"]["names_"] = [node] * 3

    tracemalloc.start()
    data = rewritten(good, change)
    with pytest.raises(ModelFileError, match=r"names_.* would take more than"):
        loading(data)
    assert tracemalloc.get_traced_memory()[1] < 250 * len(data)
    tracemalloc.stop()


def test_a_header_of_gigabytes_is_not_parsed(good, loading, monkeypatch):
    monkeypatch.setattr("outtrees.io.model_files._LONGEST_HEADER", 1000)
    with pytest.raises(ModelFileError, match=r"its header is .*; limit 1\.0 kB"):
        loading(good)


class Trap:
    """Unpickling this would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_refused(loading, tmp_path, protocol):
    trap = str(tmp_path / "sprung")
    for content in (Trap(trap), {"a": [1.5, "x"]}, PoissonMutation()):
        with pytest.raises(ModelFileError, match="this is a pickle; pickles can run code and are"):
            loading(pickle.dumps(content, protocol=protocol))
    assert not os.path.exists(trap)


@pytest.mark.parametrize("compress", [0, 3, "gzip", "bz2", "xz", "lzma"])
def test_joblib_is_refused(tmp_path, compress):
    path = tmp_path / "model"
    joblib.dump(Trap(str(tmp_path / "sprung")), path, compress=compress)
    with pytest.raises(
        ModelFileError, match=r"pickles can run code and are refused|not a model of out"
    ):
        load(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\0", b"hello", b"{}", b"\0" * 100, b"id,a\nx,1\n", b"." * 50),
        *(gzip.compress(b"x", mtime=0), b"PK\x03\x04", b"\x89PNG\r\n\x1a\n" + b"\0" * 40),
    ],
    ids=lambda data: f"{len(data)} bytes",
)
def test_other_files_are_refused(loading, data):
    with pytest.raises(ModelFileError):
        loading(data)


def test_safetensors_of_others_are_refused(loading):
    from safetensors.numpy import save as serialise

    with pytest.raises(ModelFileError, match="this is not a model of outtrees"):
        loading(serialise({"a": np.zeros(3)}))


def test_a_header_may_begin_like_a_pickle(tmp_path):
    """Its length is the first thing in the file: 896 is 80 03 in hexadecimal, a pickle's mark."""
    starts = set()
    for padding in range(0, 400, 8):  # headers are filled up to eights
        model = OutTreeDensity(mutation="x" * padding)
        path = save(model, tmp_path / "model")
        starts.add(path.read_bytes()[:2])
        assert load(path).mutation == model.mutation
    assert b"\x80\x03" in starts or b"\x80\x04" in starts


def test_files_that_are_no_files(tmp_path, good, loading):
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="is not a regular file but a directory"):
        load(tmp_path)
    with pytest.raises(ModelFileError, match="is not a regular file but a device"):
        load("/dev/zero")
    with pytest.raises(ModelFileError, match=r"model is .* kB; limit 100 bytes"):
        loading(good, max_bytes=100)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = save(PoissonMutation(), tmp_path / "model")
    before = path.read_bytes()

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save(OutTreeDensity("gaussian"), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]

"""Model files: arrays as safetensors with JSON beside them, under one checksum."""

from __future__ import annotations

import hashlib
import json
import os
import pickletools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from outtrees import __version__
from outtrees._common.files import read_bytes, size_text, write_atomically
from outtrees.errors import ModelFileError
from outtrees.io.model_classes import allowed_classes
from outtrees.io.model_values import Decoder, Encoder
from outtrees.records.files import HARMLESS, LARGEST_RATIO, MAX_BYTES

FORMAT = 1
# The oldest format that is read. A class in files that changes what its fields mean raises both.
OLDEST = 1
_NEEDS = "0.1"  # the first version of this library that reads FORMAT
_CHECKSUM = re.compile(rb'\\"sha256\\":\\"([0-9a-f]{64})\\"')
# gzip, bzip2, zip, zlib at any level, xz, lzma, lz4: what joblib may pack a pickle in.
_PACKED = (b"\x1f\x8b", b"BZh", b"PK", b"x\x01", b"x^", b"x\x9c", b"x\xda", b"\xfd7zXZ", b"]\0\0",
    b"\x04\x22\x4d\x18")  # fmt: skip
_LONGEST_HEADER = 100_000_000  # that of safetensors
_DAMAGED = "checksum mismatch: the file is truncated or damaged; get it again"


def save(model: Any, path: str | os.PathLike[str], *, classes: Iterable[type] = ()) -> Path:
    """Write a mutation or a fitted estimator to a file, whole or not at all; return the path.

    Parameters
    ----------
    model : mutation, estimator or records
    path : path
    classes : iterable of types
        Classes of your own, beside those in `outtrees.io.CLASSES`; give them to `load` as well.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ModelFileError
        If something in the model is neither a number, text, an array, a list, tuple, set or dict
        of such, nor an object of an allowed class; it names the attribute.

    Notes
    -----
    What comes back from `load` computes the same bytes: floats are kept exactly, and arrays keep
    their order in memory (C or Fortran), on which the last digit of a matrix product can depend.

    Examples
    --------
    >>> import tempfile
    >>> from outtrees.models import PoissonMutation
    >>> mutation = PoissonMutation().start([[1.0], [4.0], [2.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(mutation, folder + "/counts.safetensors")
    ...     load(path)
    <PoissonMutation() with 1 columns and 2 parameters>
    """
    from safetensors.numpy import save as serialise

    encoder = Encoder(allowed_classes(classes))
    tree = encoder.encode(model, type(model).__name__)
    if not isinstance(tree, dict) or tree["kind"] not in ("dataclass", "estimator"):
        raise ModelFileError(
            f"what is saved must be a mutation or an estimator; got {type(model).__name__}"
        )
    text = json.dumps(
        {
            "format": FORMAT,
            "needs": _NEEDS,
            "written_by": __version__,
            "sha256": "0" * 64,
            "model": tree,
        },
        allow_nan=False,
        separators=(",", ":"),
    )
    data = serialise(encoder.arrays, metadata={"outtrees": text})
    begin, _ = _checksum_place(data)
    digest = hashlib.sha256(data).hexdigest().encode()
    return write_atomically(path, data[:begin] + digest + data[begin + 64 :])


def load(
    path: str | os.PathLike[str], *, classes: Iterable[type] = (), max_bytes: int = MAX_BYTES
) -> Any:
    """Return the model that `save` wrote.

    Parameters
    ----------
    path : path
    classes : iterable of types
        Classes of your own that the file may name, beside those in `outtrees.io.CLASSES`.
    max_bytes : int
        Larger files are refused, and those whose contents would take more than this, or more than
        200 times the file.

    Returns
    -------
    mutation, estimator or records
        As it was saved.

    Raises
    ------
    ModelFileError
        If the file is no model, truncated or damaged, of a newer format, a pickle (which could run
        code), or names a class or parameter that is not known here. If another version of the
        library saved it, the message names both versions and says what to do.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> from outtrees.io import save
    >>> from outtrees.models import GaussianMutation
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(GaussianMutation(), f"{folder}/model.safetensors")
    ...     load(path)
    GaussianMutation()
    """
    path = Path(path)
    data = read_bytes(path, max_bytes, ModelFileError)
    try:
        return _loaded(data, allowed_classes(classes), max_bytes)
    except ModelFileError as error:
        raise ModelFileError(f"{path.name}: {error}") from error.__cause__


def _loaded(data: bytes, allowed: Mapping[str, type | str], max_bytes: int) -> Any:
    from safetensors import SafetensorError
    from safetensors.numpy import load as deserialise

    _refuse_pickles(data)
    begin, found = _checksum_place(data)
    blank = data[:begin] + b"0" * 64 + data[begin + 64 :]
    if hashlib.sha256(blank).hexdigest().encode() != found:
        raise ModelFileError(_DAMAGED)
    # From here on the file is what somebody wrote, though not necessarily this library.
    header_size = int.from_bytes(data[:8], "little")
    if header_size > _LONGEST_HEADER:  # as JSON it would take fifty times as much
        raise ModelFileError(
            f"its header is {size_text(header_size)}; limit {size_text(_LONGEST_HEADER)}"
        )
    try:
        header = json.loads(data[8 : 8 + header_size])
        about = json.loads(header["__metadata__"]["outtrees"], parse_constant=_no_constant)
        format_ = about["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ModelFileError("this is not a model of outtrees: its header cannot be read") from None
    if not isinstance(format_, int) or format_ > FORMAT:
        raise ModelFileError(
            f"written by format {str(format_)[:20]}; this version reads <= {FORMAT}; upgrade "
            f"outtrees to >= {str(about.get('needs', '?'))[:20]}"
        )
    if format_ < OLDEST:
        raise ModelFileError(_other_version(about))
    try:
        arrays = deserialise(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise ModelFileError(f"its arrays cannot be read ({str(error)[:200]})") from None
    decoder = Decoder(allowed, arrays, min(max_bytes, max(LARGEST_RATIO * len(data), HARMLESS)))
    try:
        model = decoder.decode(about.get("model"), "model")
    except ModelFileError as error:
        if about.get("written_by") in (None, __version__):
            raise
        # What is in it was right when it was written.
        raise ModelFileError(f"{_other_version(about)} ({error})") from error.__cause__
    unused = sorted(set(arrays) - decoder.used)
    if unused:
        raise ModelFileError(f"array {unused[0][:60]!r} belongs to nothing; the file is refused")
    return model


def _other_version(about: Mapping[str, Any]) -> str:
    written_by = str(about.get("written_by"))[:20]
    return (
        f"this model was saved by outtrees {written_by} and cannot be read by outtrees "
        f"{__version__}; fit and save it again, or load it with outtrees {written_by}"
    )


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _checksum_place(data: bytes) -> tuple[int, bytes]:
    """Return where the checksum stands, and what it is."""
    size = int.from_bytes(data[:8], "little")
    if data[8:9] not in (b"", b"{"):  # a table, a picture
        raise ModelFileError(f"this is not a model of outtrees, or {_DAMAGED}")
    if len(data) < 8 or size > len(data) - 8:
        raise ModelFileError(_DAMAGED)
    found = list(_CHECKSUM.finditer(data, 8, 8 + size))
    if len(found) != 1:
        raise ModelFileError(f"this is not a model of outtrees, or {_DAMAGED}")
    return found[0].start(1), found[0][1]


def _refuse_pickles(data: bytes) -> None:
    if data[8:9] == b"{":  # a header, whose length may begin like anything
        return
    if _is_pickle(data):
        raise ModelFileError("this is a pickle; pickles can run code and are refused")
    if data.startswith(_PACKED):
        raise ModelFileError(
            "this is an archive or a compressed file, perhaps of joblib; pickles can run code and "
            "are refused, and models of outtrees are not compressed"
        )


def _is_pickle(data: bytes) -> bool:
    if data[:1] == b"\x80" and data[1:2] <= b"\x05":
        return True
    if data[-1:] != b".":
        return False
    try:  # protocols 0 and 1 have no mark at the beginning; this parses and runs nothing
        return all(opcode is not None for opcode, _, _ in pickletools.genops(data))
    except Exception:  # whatever it is, no pickle
        return False

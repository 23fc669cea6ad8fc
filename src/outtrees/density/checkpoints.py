"""Checkpoints of a density: which fits can be kept, and which fit a file is of."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any

import numpy as np

from outtrees._common.types import Array
from outtrees.errors import ArgumentError, Option
from outtrees.inference.checkpoints import digest, tracked
from outtrees.inference.stages import EmStage, Track
from outtrees.models.base import Mutation

# None of these changes what is fitted; which pairs take part was decided already.
_DO_NOT_MATTER = ("n_jobs", "verbose", "candidates")


def density_track(
    model: Any,
    X: Array,  # (T, D)
    hidden: bool,
    path: str | os.PathLike[str],
) -> Track:
    """Return the track of a fit of an `OutTreeDensity` that keeps what it reaches in a file.

    `hidden`: some cells are missing, and will be integrated out. A fit without a seed draws one,
    which the file keeps.
    """
    _refuse_what_cannot_be_kept(model, hidden)
    settings = {k: v for k, v in model.get_params(deep=False).items() if k not in _DO_NOT_MATTER}
    own = [type(model.mutation)] if isinstance(model.mutation, Mutation) else []
    fingerprint = digest({**settings, "way": model.candidates_, "X": X}, own)
    seed = int(np.random.default_rng().integers(2**31)) if model.random_state is None else None
    return tracked(
        path, fingerprint, lambda fields: EmStage(*fields), of="data", seed=seed, classes=own
    )


def _refuse_what_cannot_be_kept(model: Any, hidden: bool) -> None:
    many = [
        Option(name, "auto")
        for name in ("mutation", "n_components", "prior_strength")
        if isinstance(getattr(model, name), str) and getattr(model, name) == "auto"
    ]
    if many:
        raise ArgumentError(
            "a checkpoint keeps one fit, but ",
            many[0],
            " makes one for each fold; name one mutation with its options, or fit without a "
            "checkpoint",
        )
    if hidden:
        raise ValueError(
            "a checkpoint keeps a fit to complete records, but some cells are missing; fill them "
            "in with OutTreeImputer first, or fit without a checkpoint"
        )
    if model.solver != "em":
        raise ValueError(
            f"a checkpoint expects solver='em', but got {model.solver!r}; change it, or fit "
            "without a checkpoint"
        )
    seed = model.random_state
    if seed is not None and not isinstance(seed, Integral):
        raise ValueError(
            f"a checkpoint expects random_state to be an int or None, but got a "
            f"{type(seed).__name__}, which would be another one when the fit goes on; give a number"
        )

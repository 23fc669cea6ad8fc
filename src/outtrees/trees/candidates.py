"""The old name of a distribution over listed edges, for one version."""

from __future__ import annotations

import warnings
from typing import Any

from outtrees.trees.distribution import OutTreeDistribution


def CandidateTrees(*args: Any, **options: Any) -> OutTreeDistribution:
    """Return ``OutTreeDistribution.from_candidates`` of the same arguments, with a warning."""
    warnings.warn(
        "CandidateTrees is now OutTreeDistribution.from_candidates; use that name.",
        FutureWarning,
        stacklevel=2,
    )
    return OutTreeDistribution.from_candidates(*args, **options)

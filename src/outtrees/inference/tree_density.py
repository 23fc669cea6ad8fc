"""What the two estimators of densities, `OutTreeDensity` and `BayesianOutTree`, have in common."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning

from outtrees._common.types import Array
from outtrees.errors import Message, Option
from outtrees.trees import OutTreeDistribution
from outtrees.trees.weights import Ints


class TreeDensity(DensityMixin, BaseEstimator, ABC):
    """Log-densities summed, trees drawn; and a fit that ends too early says so."""

    _MADE_AGAIN: tuple[str, ...] = ("_tree",)  # T × T arrays, which no pickle holds

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle holds."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in self._MADE_AGAIN}

    @abstractmethod
    def score_samples(self, X: Any) -> Array:
        """Return the log-density of each record, (n,)."""

    @property
    @abstractmethod
    def tree_(self) -> OutTreeDistribution:
        """The distribution over out-trees of the training records."""

    @property
    def _sampled(self) -> Any:
        """What trees are drawn from."""
        return self.tree_

    def score(self, X: Any, y: Any = None) -> float:
        """Return the sum of the log-densities of the records.

        Parameters
        ----------
        X : array-like or data frame of shape (n, D)
            New records.
        y : None
            Not used.

        Returns
        -------
        float
            The sum.
        """
        return float(self.score_samples(X).sum())

    def sample_trees(self, n_trees: int = 1, random_state: Any = None) -> Ints:
        """Return out-trees of the training records given the fit, (n_trees, T) parents.

        Parameters
        ----------
        n_trees : int
            The number of trees.
        random_state : int, Generator or None
            For the draws.

        Returns
        -------
        array of shape (n_trees, T)
            Parents, −1 at the root.

        Examples
        --------
        >>> import numpy as np
        >>> from outtrees import OutTreeDensity
        >>> X = np.random.default_rng(0).normal(size=(20, 2))
        >>> OutTreeDensity("gaussian").fit(X).sample_trees(3, random_state=0).shape
        (3, 20)
        """
        trees: Ints = self._sampled.sample(n_trees, random_state)
        return trees

    def _warn_unless_converged(self, converged: bool, *remedies: str | Option) -> None:
        """Warn in the name of who called `fit` that its steps were too few."""
        if not converged:
            warnings.warn(
                Message(
                    f"{type(self).__name__} did not converge in ",
                    Option("max_iter", self.max_iter),
                    f" steps (tol={self.tol:g} nats); raise ",
                    Option("max_iter"),
                    " or ",
                    Option("tol"),
                    *remedies,
                ),
                ConvergenceWarning,
                stacklevel=4,
            )

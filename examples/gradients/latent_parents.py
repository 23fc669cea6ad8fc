"""
Learn how children differ from parents that nobody saw
======================================================

Each record is a changed copy of another one, but who came from whom is unknown, and so is the change. A network predicts
a child from its parent. log Z sums over all out-trees, so its gradient trains the network on every pair in proportion
to the probability that it is a parent and its child.

Needs PyTorch: pip install 'outtrees[torch]'. Run: python examples/gradients/latent_parents.py
"""

# %%
# Data
# ----
# Forty families of 12 points. A child is its parent turned by 60 degrees and moved outwards, with noise. Nearest
# neighbours are rarely parents.

import importlib.util

import numpy as np
import torch

import outtrees.torch

rng = np.random.default_rng(0)
torch.manual_seed(0)
B, T, NOISE = 40, 12, 0.15
ANGLE = np.pi / 3
TURN = np.array([[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]])
X, parents = np.zeros((B, T, 2)), np.full((B, T), -1)
for b in range(B):
    X[b, 0] = rng.normal(size=2)
    for u in range(1, T):
        v = rng.integers(u)
        parents[b, u] = v
        X[b, u] = 1.15 * TURN @ X[b, v] + [0.5, 0.0] + NOISE * rng.normal(size=2)
data = torch.tensor(X)

# %%
# Model
# -----
# log β[u, v] = log N(x_u | network(x_v), σ²); a root is drawn from one broad normal distribution.


class Change(torch.nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.step = torch.nn.Sequential(
            torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, 2)
        ).double()
        self.linear = torch.nn.Linear(2, 2).double()
        self.log_sd = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def forward(self, x):
        guess = self.linear(x) + self.step(x)
        square = ((x[:, :, None] - guess[:, None]) ** 2).sum(dim=-1)
        edge = -0.5 * square * torch.exp(-2 * self.log_sd) - 2 * self.log_sd - np.log(2 * np.pi)
        root = -0.5 * (x**2).sum(dim=-1) / 9 - np.log(2 * np.pi * 9)
        eye = torch.eye(x.shape[1], dtype=bool)
        return torch.where(eye, torch.diag_embed(root), edge)


def fit(start):
    torch.manual_seed(start)
    model = Change()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(300):
        log_z = outtrees.torch.log_partition(model(data))
        optimiser.zero_grad()
        (-log_z.mean()).backward()
        optimiser.step()
    return log_z.mean().item(), model


# %%
# The likelihood has several maxima; the best of three starts is kept. Nothing of the true parents is used.

log_z, model = max((fit(start) for start in range(3)), key=lambda pair: pair[0])
with torch.no_grad():
    scores = model(data)
    marginal = outtrees.torch.marginals(scores).numpy()
children = parents >= 0
truth = np.take_along_axis(marginal, np.maximum(parents, 0)[..., None], axis=2)[..., 0][children]
edges = np.where(np.eye(T, dtype=bool), 0.0, marginal)
guess, sure = edges.argmax(axis=2), edges.max(axis=2)
square = ((X[:, :, None] - X[:, None]) ** 2).sum(axis=-1) + 1e9 * np.eye(T)
print(
    f"log-likelihood {log_z:.2f} per family, spread {model.log_sd.exp().item():.3f} (true {NOISE})"
)
print(
    f"true parents: {(guess == parents)[children].mean():.1%} named, {sure[children].mean():.1%} promised"
)
print(f"nearest neighbours: {(square.argmin(axis=2) == parents)[children].mean():.1%}")

# %%
# Beside torch-struct
# -------------------
# For the fitted model, in which each child has a likely parent, both agree. A model that is wrong and sure of
# itself, as at a start with a small spread, gives every edge a tiny weight: then the 1e-5 that torch-struct adds
# to each weight decides, and there is no slope to learn from.

if importlib.util.find_spec("torch_struct"):
    import warnings

    warnings.filterwarnings("ignore", message=".*arg_constraints", category=UserWarning)
    from torch_struct import NonProjectiveDependencyCRF

    sure = Change()
    with torch.no_grad():
        sure.log_sd.fill_(-2.5)
    for name, one in (("fitted", model), ("wrong and sure", sure)):
        with torch.no_grad():
            scores = one(data)
        theirs = NonProjectiveDependencyCRF(scores.transpose(1, 2), multiroot=False)
        ours = outtrees.torch.log_partition(scores)
        error = (theirs.marginals.transpose(1, 2) - outtrees.torch.marginals(scores)).abs().max()
        print(
            f"{name}: log Z by torch-struct is off by up to {(theirs.partition - ours).abs().max():.3g} "
            f"nats, a marginal by up to {error:.2g}"
        )

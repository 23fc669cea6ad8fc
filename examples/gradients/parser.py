"""
Train a dependency parser
=========================

Each word of a sentence depends on one other word, its head, or is the root: an out-tree. A small network scores
every (word, head) pair; training raises the probability of the right trees among all trees. The sum over all
trees, with its gradient, is `outtrees.torch.log_partition`.

Needs PyTorch: pip install 'outtrees[torch]'. Run: python examples/gradients/parser.py
"""

# %%
# A generated language
# --------------------
# A clause is a verb with its subject and object, perhaps an adverb; nouns have determiners, adjectives and
# prepositional phrases. Half of the words may be of two kinds.

import importlib.util

import numpy as np
import torch

import outtrees.torch
from outtrees import OutTreeDistribution

rng = np.random.default_rng(0)
torch.manual_seed(0)
KINDS = {
    kind: 20 * i + np.arange(30)
    for i, kind in enumerate(["det", "adj", "noun", "verb", "adv", "prep"])
}
LONGEST = 14


def noun_phrase(words, head):
    """Append a noun with its dependents; return the position of the noun."""
    before = [kind for kind, chance in (("det", 0.7), ("adj", 0.4)) if rng.random() < chance]
    noun = len(words) + len(before)
    words += [(kind, noun) for kind in before]
    words.append(("noun", head))
    if rng.random() < 0.25 and len(words) < LONGEST - 8:
        words.append(("prep", noun))
        noun_phrase(words, len(words) - 1)
    return noun


def sentence():
    """Return words and heads, −1 at the verb."""
    words = []
    subject = noun_phrase(words, None)
    verb = len(words)
    words[subject] = ("noun", verb)
    words.append(("verb", -1))
    if rng.random() < 0.4:
        words.append(("adv", verb))
    if rng.random() < 0.7:
        noun_phrase(words, verb)
    return [rng.choice(KINDS[kind]) for kind, _ in words], [head for _, head in words]


def batch(n):
    """Return words (n, T) and heads (n, T), padded, and lengths (n,)."""
    made = [pair for pair in (sentence() for _ in range(2 * n)) if len(pair[0]) <= LONGEST][:n]
    words, heads = np.zeros((2, n, LONGEST), dtype=np.int64)
    for i, pair in enumerate(made):
        words[i, : len(pair[0])], heads[i, : len(pair[1])] = pair
    return torch.tensor(words), torch.tensor(heads), torch.tensor([len(w) for w, _ in made])


# %%
# The parser
# ----------
# A word is scored with its neighbours; a pair by both words and how far apart they stand. Roots' scores stand on
# the diagonal: there, a word is its own head.


class Parser(torch.nn.Module):
    def __init__(self, size=24):
        super().__init__()
        self.word = torch.nn.Embedding(130, size)
        self.near = torch.nn.Conv1d(size, size, 3, padding=1)
        self.pair = torch.nn.Bilinear(size, size, 1)
        self.distance = torch.nn.Embedding(2 * LONGEST, 1)
        self.root = torch.nn.Linear(size, 1)

    def forward(self, words):
        x = self.word(words)
        x = x + torch.tanh(self.near(x.transpose(1, 2))).transpose(1, 2)
        T = words.shape[1]
        child, head = x[:, :, None].expand(-1, -1, T, -1), x[:, None].expand(-1, T, -1, -1)
        offset = torch.arange(T)[:, None] - torch.arange(T)[None] + LONGEST
        scores = (self.pair(child.contiguous(), head.contiguous()) + self.distance(offset))[..., 0]
        return scores + torch.diag_embed(
            self.root(x)[..., 0] - torch.diagonal(scores, dim1=1, dim2=2)
        )


def log_likelihood(scores, heads, lengths):
    """Return the log-probability of the right trees."""
    T = scores.shape[1]
    column = torch.where(heads < 0, torch.arange(T), heads)
    right = scores.gather(2, column[..., None])[..., 0]
    there = torch.arange(T) < lengths[:, None]
    return (right * there).sum(dim=1) - outtrees.torch.log_partition(scores, lengths)


parser = Parser()
optimiser = torch.optim.Adam(parser.parameters(), lr=0.01)
for step in range(1, 151):
    words, heads, lengths = batch(64)
    loss = -(log_likelihood(parser(words), heads, lengths) / lengths).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 50 == 0:
        print(f"step {step}: {loss.item():.3f} nats per word")

# %%
# New sentences
# -------------
# The most probable trees of all sentences at once. The marginals say how sure the parser is of each head: are
# as many right as they promise?

words, heads, lengths = batch(400)
with torch.no_grad():
    scores = parser(words).double()
log_root = torch.diagonal(scores, dim1=1, dim2=2).numpy()
trees = OutTreeDistribution.batch(scores.numpy(), log_root, lengths.numpy())
there = np.arange(LONGEST) < lengths.numpy()[:, None]
found = trees.mode().parents
right = (found == heads.numpy())[there]
chance = np.where(
    found < 0,
    trees.root_marginals,
    np.take_along_axis(trees.edge_marginals, np.maximum(found, 0)[..., None], axis=2)[..., 0],
)[there]
print(f"new sentences: {right.mean():.1%} of heads are right, {chance.mean():.1%} promised")

# %%
# Beside torch-struct
# -------------------
# The same likelihood, where that one is right: it adds 1e-5 to every weight, of the padding too. A constant added
# to all scores changes no probability, but if they are low, 1e-5 no longer is little beside the weights.

if importlib.util.find_spec("torch_struct"):
    import warnings

    warnings.filterwarnings("ignore", message=".*arg_constraints", category=UserWarning)
    from torch_struct import NonProjectiveDependencyCRF

    for shift in (20.0, 0.0, -20.0):
        moved = scores + shift
        theirs = NonProjectiveDependencyCRF(
            moved.transpose(1, 2), lengths, multiroot=False
        ).partition
        ours = outtrees.torch.log_partition(moved, lengths)
        print(
            f"scores {shift:+.0f}: log Z differs by up to {(theirs - ours).abs().max().item():.1e}"
        )

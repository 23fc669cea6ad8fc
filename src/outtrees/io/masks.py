"""Label images of the Cell Tracking Challenge: each pixel is the label of a track, or 0."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from outtrees._common.text import shown
from outtrees.errors import RecordsError

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

_MOST_LABELS = 2**16 - 1  # that 16 bits hold
_MOST_PIXELS = 2**28  # of all images together, and of one that is read
_WHOLE = 2048  # coordinates from 0 up to here are pixels as they are
_ACROSS, _PLANES = 512, 32  # pixels and planes that other coordinates are scaled to
_RADIUS = 3  # of a cell, in pixels


def write_masks(folder: Path, begin: Ints, end: Ints, start: Array, stop: Array) -> None:
    """Write mask000.tif, …: each track as a disc on its straight way from `start` to `stop`.

    Coordinates from 0 to 2047 are pixels; others are shifted and scaled to 512 pixels and 32
    planes, which the description in each image says. Where cells lie on each other, the centre of
    each stays seen. Places (T, 2 or 3) are x, y and perhaps z.
    """
    from PIL import Image

    T, frames = len(begin), int(end.max()) + 1
    first, scale = _pixels(np.concatenate([start, stop]))
    start, stop = (start - first) / scale, (stop - first) / scale
    top = np.ceil(np.maximum(start.max(axis=0), stop.max(axis=0))).astype(np.intp)
    top[:2] += _RADIUS
    shape = tuple((top + 1)[::-1].tolist())  # (z,) y, x
    if T > _MOST_LABELS:
        raise ValueError(f"CTC holds up to {_MOST_LABELS:,} tracks; there are {T:,}")
    if frames * int(np.prod(shape)) > _MOST_PIXELS:
        size = " × ".join(map(str, shape))
        raise ValueError(
            f"CTC would need {frames:,} images of {size} pixels, which is too much; give frames as "
            "whole numbers near each other, and places in pixels"
        )
    units = ", ".join(f"{axis} {f:g}" for axis, f in zip("xyz", first, strict=False))
    note = f"origin at {units}; one pixel is {', '.join(f'{s:g}' for s in scale)}"
    digits = max(3, len(str(frames - 1)))
    for frame in range(frames):
        here = np.flatnonzero((begin <= frame) & (frame <= end))
        part = (frame - begin[here]) / np.maximum(end[here] - begin[here], 1)
        at = np.rint(start[here] + part[:, None] * (stop[here] - start[here])).astype(np.intp)
        planes = _drawn(shape, at[:, ::-1], here + 1).reshape(-1, *shape[-2:])
        images = [Image.fromarray(plane) for plane in planes]
        images[0].save(
            folder / f"mask{frame:0{digits}d}.tif",
            compression="tiff_deflate",
            save_all=len(images) > 1,
            append_images=images[1:],
            description=note,
        )


def _pixels(points: Array) -> tuple[Array, Array]:
    """Return the origin, and the width of a pixel, of each axis; x and y have the same."""
    low, high = points.min(axis=0), points.max(axis=0)
    if (low >= 0).all() and (high < _WHOLE).all():
        return np.zeros(len(low)), np.ones(len(low))
    width = np.maximum(high - low, 1e-12)
    width[:2] = width[:2].max() / _ACROSS
    width[2:] /= _PLANES
    return low - np.array([_RADIUS, _RADIUS, 0])[: len(low)] * width, width


def _drawn(shape: tuple[int, ...], centres: Ints, labels: Ints) -> NDArray[np.uint16]:
    """Return one frame: a disc about each centre, and the centres above all discs."""
    image = np.zeros(shape, dtype=np.uint16)
    ys, xs = np.mgrid[-_RADIUS : _RADIUS + 1, -_RADIUS : _RADIUS + 1]
    inside = xs**2 + ys**2 <= _RADIUS**2
    for (*plane, y, x), label in zip(centres.tolist(), labels.tolist(), strict=True):
        rows, columns = y + ys[inside], x + xs[inside]
        kept = (rows >= 0) & (columns >= 0) & (rows < shape[-2]) & (columns < shape[-1])
        image[(*plane, rows[kept], columns[kept])] = label
    taken: set[int] = set()
    flat = image.reshape(-1)
    for centre, label in zip(np.ravel_multi_index(tuple(centres.T), shape), labels, strict=True):
        pixel = int(centre)
        while pixel in taken:  # of two in one place the second moves to the next free pixel
            pixel = (pixel + 1) % len(flat)
        taken.add(pixel)
        flat[pixel] = label
    return image


def read_centres(
    folder: Path, wanted: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int, tuple[float, ...]]]:
    """Yield frame, label and centre (x, y and perhaps z) of the labels wanted in each frame."""
    from PIL import Image

    files = {
        int(found[1]): path
        for path in sorted(folder.iterdir())
        if (found := re.fullmatch(r"(?:mask|man_track)(\d{1,9})\.tiff?", path.name))
    }
    for frame, labels in wanted.items():
        if frame not in files:
            continue
        try:
            with warnings.catch_warnings(), Image.open(files[frame]) as image:
                warnings.simplefilter("error")  # of an image that would fill the memory
                planes = int(getattr(image, "n_frames", 1))
                if planes * image.width * image.height > _MOST_PIXELS:
                    raise ValueError("it is too large")
                stack = []
                for plane in range(planes):
                    image.seek(plane)
                    stack.append(np.array(image))
        except (OSError, ValueError, Warning, Image.DecompressionBombError) as error:
            raise RecordsError(
                f"{shown(files[frame].name)} cannot be read as an image ({shown(error)})"
            ) from None
        values = np.array(stack)  # (z, y, x)
        at = np.nonzero(values)
        of, number = np.unique(values[at], return_inverse=True)
        sizes = np.bincount(number)
        axes = at[::-1] if planes > 1 else at[:0:-1]  # x, y, z
        centres = np.array([np.bincount(number, axis) / sizes for axis in axes]).T
        place = dict(zip(of.tolist(), centres.tolist(), strict=True))
        for label in labels:
            if label in place:
                yield frame, label, tuple(place[label])

"""Normalization of raw scores to points from 0 to 100, in the three ways of kube-scheduler."""

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MOST = 100


def share_of_largest(raw: Points, fits: Mask, *, reverse: bool = False) -> Points:
    """Points relative to the largest, which gets 100. Reversed: 0 for the largest, and 100 for all if all are 0."""
    largest = int(raw[fits].max(initial=0))
    if largest == 0:
        return np.full(len(raw), MOST) if reverse else raw
    points: Points = MOST * raw // largest
    return MOST - points if reverse else points


def between_least_and_most(raw: Points, fits: Mask) -> Points:
    """Points from 0 for the least to 100 for the most; 0 for all rows if they are equal."""
    if not fits.any():
        return np.zeros(len(raw), np.int64)
    least, most = int(raw[fits].min()), int(raw[fits].max())
    if most == least:
        return np.zeros(len(raw), np.int64)
    return (MOST * ((raw - least) / (most - least))).astype(np.int64)


def fewer_is_better(raw: Points, compared: Mask) -> Points:
    """Points of 100 for the least, and less in proportion for more; 0 for rows that are not compared."""
    if not compared.any():
        return np.zeros(len(raw), np.int64)
    least, most = int(raw[compared].min()), int(raw[compared].max())
    points = np.full(len(raw), MOST) if most == 0 else MOST * (most + least - raw) // most
    return np.where(compared, points, 0)

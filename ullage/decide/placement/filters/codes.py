"""Reasons as small numbers, for vectors over rows. 0 fits."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ullage.model.verdict import Reason

Codes = npt.NDArray[np.uint8]

REASONS: tuple[Reason, ...] = tuple(Reason)
"""Reason of each code."""

CODE: Mapping[Reason, int] = {reason: code for code, reason in enumerate(REASONS)}

FITS = CODE[Reason.FITS]
NO_NODE = 255
"""Code of a row without a node: it has no Reason, and takes no pod."""


def first_of(earlier: Codes, later: Codes) -> Codes:
    """Codes of `earlier` where it refuses, else of `later`."""
    return np.where(earlier, earlier, later)

"""The measured state of every node as it is, and of some nodes as they would be with one more pod."""

import numpy as np
from numpy.typing import NDArray

from ullage.decide.score.columns import GpuColumns, GpuDemand
from ullage.decide.score.usable import Amounts, Measure, Rows, State
from ullage.model.device import MILLI_GPU

UNSEEN = -1
"""A stamp no row has."""
NO_ROOM = 1e9
"""Spoilt by a placement for which no device has room: more than any node has."""

_SAME = 1e-6

Spoilt = tuple[Amounts, NDArray[np.int8]]
"""Usable GPU lost beyond what the pod takes, and the device a share should take (-1: any), by row."""


class NodeStates:
    """Kept up to date row by row, as stamps change."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._seen = np.empty(0, dtype=np.int64)
        self._state = measure.no_state(0)
        self._usable: Amounts = np.empty(0)

    def refresh(self, columns: GpuColumns) -> None:
        """Look again at rows that have changed."""
        if len(self._seen) != len(columns.stamp):
            self._resize(len(columns.stamp))
        rows = (self._seen != columns.stamp).nonzero()[0]
        if not len(rows):
            return
        state = self._measure.state(columns.gpu_left[rows], columns.cpu_left[rows], columns.model[rows])
        self._state.put(rows, state)
        self._usable[rows] = self._measure.usable(state)
        self._seen[rows] = columns.stamp[rows]

    def spoilt(self, columns: GpuColumns, demand: GpuDemand, rows: Rows) -> Spoilt:
        """What placing one pod with this demand would spoil on each of these rows."""
        sizes = np.array(demand.milli)[columns.model[rows]]
        state = self._state.at(rows)
        state = state._replace(cpu=state.cpu - demand.cpu)
        if demand.gpus == 1 and (sizes != MILLI_GPU).any():
            return self._with_share(columns.gpu_left[rows], sizes, state, self._usable[rows])
        taken = demand.gpus * sizes
        if demand.gpus and (sizes != MILLI_GPU).any():
            left = _less_tightest(columns.gpu_left[rows], sizes, demand.gpus)
            state = self._measure.state(left, state.cpu, columns.model[rows])
        elif demand.gpus:
            state = state._replace(devices=state.devices - demand.gpus, room=state.room - taken[:, None])
        lost = self._usable[rows] - self._measure.usable(state)
        return lost - taken, np.full(len(rows), -1, np.int8)

    def _with_share(self, left: Rows, sizes: Rows, state: State, usable: Amounts) -> Spoilt:
        """Tries each device of a row, devices with equally much left once, the fullest first."""
        amounts = np.sort(left, axis=1)
        candidate = amounts >= sizes[:, None]
        candidate[:, 2:] = False
        place, slot = np.nonzero(candidate)
        before = amounts[place, slot]
        after = before - sizes[place]
        state = state.at(place)
        devices, room = self._measure.device_table, self._measure.room_table
        state = state._replace(
            devices=state.devices + devices[state.kind, after] - devices[state.kind, before],
            room=state.room + room[state.kind, after] - room[state.kind, before],
        )
        lost = usable[place] - self._measure.usable(state) - sizes[place]
        least = np.full(len(left), NO_ROOM)
        np.minimum.at(least, place, lost)
        chosen = np.flatnonzero(lost <= least[place] + _SAME)[::-1]
        amount = np.full(len(left), -1, dtype=np.int64)
        # Written from the emptiest to the fullest, so that the fullest of equals stays.
        amount[place[chosen]] = before[chosen]
        device = (left == amount[:, None]).argmax(axis=1).astype(np.int8)
        device[amount < 0] = -1
        return least, device

    def _resize(self, rows: int) -> None:
        old, kept = self._state, min(rows, len(self._seen))
        self._state = self._measure.no_state(rows)
        self._state.put(slice(kept), old.at(slice(kept)))
        self._usable = np.concatenate((self._usable[:kept], np.zeros(rows - kept)))
        self._seen = np.concatenate((self._seen[:kept], np.full(rows - kept, UNSEEN)))


def _less_tightest(left: Rows, sizes: Rows, count: int) -> Rows:
    """What is left after a share of each of the fullest devices with room for it."""
    roomy = left >= sizes[:, None]
    order = np.argsort(np.where(roomy, left, MILLI_GPU + 1), axis=1, kind="stable")[:, :count]
    remaining = left.astype(np.int64)
    np.put_along_axis(remaining, order, np.take_along_axis(remaining, order, axis=1) - sizes[:, None], axis=1)
    return np.maximum(remaining, 0)

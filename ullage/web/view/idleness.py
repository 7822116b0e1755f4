"""Idle times of GPUs, as far as this process has seen. Pure; `now` is an argument."""

from ullage.web.view.rows import GpuCell, NodeRow


class IdleTimes:
    """Instants since which GPUs are free, by node. A GPU that was free at first sight is idle since then at least."""

    def __init__(self) -> None:
        self._since: dict[str, dict[int, int]] = {}

    def of(self, row: NodeRow, *, now: float) -> tuple[int, ...]:
        """Instants of the free GPUs of a node in their order; a single one if all are the same."""
        ids = row.ids or range(len(row.states))
        free = [gpu for gpu, state in zip(ids, row.states, strict=True) if state == GpuCell.FREE]
        before = self._since.get(row.name, {})
        found = {gpu: min(before.get(gpu, int(now)), int(now)) for gpu in free}
        if found:
            self._since[row.name] = found
        else:
            self._since.pop(row.name, None)
        times = tuple(found.values())
        return times[:1] if len(set(times)) == 1 else times

    def forget(self, node: str) -> None:
        self._since.pop(node, None)

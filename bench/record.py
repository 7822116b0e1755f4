"""One figure of a benchmark, how it is printed and how it is kept."""

import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured pair: ours beside the peer's. `bound` is the ratio promised, which is better the larger it is."""

    name: str
    unit: str
    ours: float
    peer: float | None = None
    peer_name: str = ""
    bound: float | None = None
    more_is_better: bool = False
    before: float | None = None
    """The same figure of an earlier commit, beside a bound that is promised."""
    before_name: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer: less, or more where that is good."""
        if self.peer is None or not self.ours or not self.peer:
            return None
        return self.ours / self.peer if self.more_is_better else self.peer / self.ours

    @property
    def holds(self) -> bool:
        return self.bound is None or (self.ratio is not None and self.ratio >= self.bound)

    def line(self) -> str:
        """One line for people."""
        text = f"{self.name:<44} {self.ours:>12,.2f} {self.unit}"
        if self.peer is not None:
            text += f"   {self.peer_name} {self.peer:>12,.2f}   {self._compared()}"
        if self.before is not None:
            text += f"   {self.before_name} {self.before:,.2f}"
        if self.bound is not None:
            text += f"   (promised {self.bound:g}x: {'holds' if self.holds else 'BROKEN'})"
        return text

    def _compared(self) -> str:
        """The ratio for people. Where less is better and ours is more, it says so."""
        ratio = self.ratio or 0
        if self.more_is_better:
            return f"{ratio:,.3f}x"
        return f"{1 / ratio:,.2f}x more" if 0 < ratio < 1 else f"{ratio:,.1f}x less"


def keep(benchmark: str, figures: list[Figure]) -> Path:
    """Write the figures and the machine they are from; returns the file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{benchmark}.json"
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine()}
    rows = [{**asdict(figure), "ratio": figure.ratio, "holds": figure.holds} for figure in figures]
    path.write_text(json.dumps({"machine": machine, "figures": rows}, indent=2) + "\n")
    return path

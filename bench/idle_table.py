"""Table of docs/operations.md with the cost of each idle process, made of bench/results/idle.json."""

import json
import re

from bench.record import RESULTS

PAGE = "docs/operations.md"
HEAD = "| process | of a core | memory | API requests per second | log lines per minute |\n|---|---|---|---|---|\n"
MEASURES = {
    "processor": "{:.2f} %",
    "memory": "{:.0f} MiB",
    "API requests": "{:.2f}",
    "log lines": "{:.0f}",
}


def idle_table() -> str:
    """Rows of the kept results, in their order."""
    found: dict[str, dict[str, float]] = {}
    for one in json.loads((RESULTS / "idle.json").read_text())["figures"]:
        process, _, measure = one["name"].partition(": ")
        found.setdefault(process, {})[measure] = one["ours"]
    rows = (
        [process, *(pattern.format(figures[name]) for name, pattern in MEASURES.items())]
        for process, figures in found.items()
    )
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def mend(page: str) -> str:
    """The page with the present rows. Raises LookupError if the table is not in it exactly once."""
    mended, count = re.subn(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: idle_table(), page)
    if count != 1:
        raise LookupError(f"{PAGE}: the table of idle processes is there {count} times, not once")
    return mended

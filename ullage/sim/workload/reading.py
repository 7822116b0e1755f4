"""Workloads from files: detects the format, reads row by row, and keeps the first jobs if a limit is given."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from ullage.errors import UserError
from ullage.sim.workload.formats import ARRIVALS_COLUMNS, OPENB_COLUMNS, arrival_job, openb_job, swf_job, swf_rows
from ullage.sim.workload.job import TraceJob, Workload, in_order
from ullage.sim.workload.synthetic import Synthetic, generated, read_synthetic
from ullage.sim.workload.table_reader import (
    LONGEST_SECONDS,
    BadRow,
    BadRows,
    RowReader,
    TableRow,
    csv_rows,
    header_of,
    json_rows,
    read_table,
)

FORMATS = ("auto", "openb", "csv", "jsonl", "swf", "synthetic")
SYNTHETIC = "synthetic"
_LONGEST_NAME = 200
"""Characters. Leaves room for a gang's numbers and the suffixes of claim names."""


def read_workload(
    path: str,
    *,
    form: str = "auto",
    seed: int = 0,
    bad_rows: BadRows = BadRows.STOP,
    ignore_unknown: bool = False,
    most: int | None = None,
) -> Workload:
    """Read the workload of a file; `synthetic` instead of a path is the generator with its defaults. Raises UserError.

    `most` keeps the first so many jobs; `ignore_unknown` leaves out columns that no format has.
    """
    if path == SYNTHETIC:
        return Workload(jobs=_kept(in_order(generated(Synthetic(), seed)), most), name=SYNTHETIC)
    text = read_table(path)
    found = _detected(path, text) if form == "auto" else form
    if found == SYNTHETIC:
        return Workload(jobs=_kept(in_order(generated(read_synthetic(text, path), seed)), most), name=Path(path).name)
    sieve = RowReader(bad_rows)
    rows, read = _reader(found, text, path, ignore_unknown)
    jobs = sieve.take(rows, _Names(read).read)
    if not jobs:
        left_out = f"; {len(sieve.skipped)} rows were left out" if sieve.skipped else ""
        raise UserError(f"{path}: no jobs in it{left_out}")
    ordered = _kept(in_order(jobs), most)
    if ordered[-1].at > LONGEST_SECONDS:
        raise UserError(
            f"{path}: {ordered[-1].name} arrives {ordered[-1].at:,.0f} s after the first job; expected at most ten "
            "years; are these seconds?"
        )
    return Workload(jobs=ordered, skipped=tuple(sieve.skipped), name=Path(path).name)


def _reader(
    form: str, text: str, source: str, ignore_unknown: bool
) -> tuple[Iterator[TableRow | BadRow], Callable[[TableRow], TraceJob]]:
    plain = replace(ARRIVALS_COLUMNS, ignore_unknown=ignore_unknown)
    if form == "openb":
        return csv_rows(text, source, OPENB_COLUMNS), openb_job
    if form == "csv":
        return csv_rows(text, source, plain), arrival_job
    if form == "jsonl":
        return json_rows(text, source, plain), arrival_job
    return swf_rows(text, source), swf_job


def _detected(path: str, text: str) -> str:
    """Format by the file's name, and for CSV by its header."""
    suffix = path.lower().rpartition(".")[2]
    if suffix in ("swf", "jsonl", "ndjson"):
        return "swf" if suffix == "swf" else "jsonl"
    if suffix in ("yaml", "yml"):
        return SYNTHETIC
    if suffix in ("csv", "tsv") or "," in text.partition("\n")[0]:
        return "openb" if {"cpu_milli", "num_gpu"} <= set(header_of(text)) else "csv"
    raise UserError(f"{path}: cannot tell what format this is; say it with --workload-format ({', '.join(FORMATS)})")


def _kept(jobs: tuple[TraceJob, ...], most: int | None) -> tuple[TraceJob, ...]:
    return jobs if most is None else jobs[:most]


class _Names:
    """Makes names valid in Kubernetes and unique."""

    def __init__(self, read: Callable[[TableRow], TraceJob]) -> None:
        self._read = read
        self._seen: dict[str, int] = {}

    def read(self, row: TableRow) -> TraceJob:
        job = self._read(row)
        name = re.sub(r"[^a-z0-9-]+", "-", job.name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
        if not name:
            raise row.wrong("name", f"is {job.name!r}; expected letters and digits")
        if name in self._seen:
            raise row.wrong("name", f"is {job.name!r}, as in row {self._seen[name]}")
        self._seen[name] = row.number
        return job if name == job.name else msgspec.structs.replace(job, name=name)

"""Formats of workloads: the columns of the openb traces, a plain list of arrivals, and the Standard Workload Format."""

from collections.abc import Iterator

from ullage.model.device import MILLI_GPU, MOST_DEVICES
from ullage.model.units import Milli
from ullage.sim.workload.columns import ColumnNames
from ullage.sim.workload.job import TraceJob
from ullage.sim.workload.table_reader import LATEST_SECONDS, LONGEST_SECONDS, BadRow, TableRow

MIB = 1 << 20
_OPENB_NEEDED = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
OPENB_COLUMNS = ColumnNames(
    dict.fromkeys((*_OPENB_NEEDED, "gpu_spec", "scheduled_time"), ()), needed=_OPENB_NEEDED, ignore_unknown=True
)
"""Columns of the public trace that are read. It has others."""
ARRIVALS_COLUMNS = ColumnNames(
    {
        "name": ("job", "job_name", "job_id", "id", "pod"),
        "arrival": ("arrival_time", "arrives", "at", "submit", "submit_time", "submitted", "submission_time"),
        "duration": ("run_time", "runtime", "seconds", "duration_seconds", "duration_s", "length"),
        "gpus": ("gpu", "num_gpus", "num_gpu", "n_gpus", "gpu_count", "gpus_per_pod"),
        "pods": ("replicas", "workers", "gang_size", "num_pods", "tasks"),
        "cpu": ("cpus", "cores", "num_cpus", "vcpus"),
        "memory": ("mem", "ram"),
        "gpu_memory": ("gpu_mem", "vram"),
        "models": ("model", "gpu_model", "gpu_models", "gpu_type", "gpu_spec"),
        "priority": ("prio",),
        "namespace": ("ns", "team"),
    },
    needed=("arrival", "duration"),
)
"""Columns of a plain list of arrivals."""
MOST_PODS = 10_000
HIGHEST_PRIORITY = 1_000_000_000
"""Highest priority that Kubernetes lets users give."""
SWF_FIELDS = 18
GPUS_PER_POD = 8
"""GPUs per pod of a job in the Standard Workload Format, whose processors count as GPUs."""


def openb_job(row: TableRow) -> TraceJob:
    """Job from a row of an openb list.

    `stays` is from the trace; its run time counts from when the trace scheduled it.
    """
    created, gone = (
        row.number_of("creation_time", most=LATEST_SECONDS),
        row.maybe_number("deletion_time", LATEST_SECONDS),
    )
    begun = row.maybe_number("scheduled_time", LATEST_SECONDS)
    if gone is not None and gone < created:
        raise row.wrong("deletion_time", f"is {gone:g}, before creation_time ({created:g})")
    gpus = row.whole("num_gpu")
    share = row.whole("gpu_milli", 0) if gpus == 1 else MILLI_GPU
    return TraceJob(
        name=row.text("name"),
        at=created,
        seconds=None if gone is None else max(gone - max(begun or created, created), 0.0),
        stays=None if gone is None else gone - created,
        gpus=_gpus(row, "num_gpu", gpus),
        share_milli=_share(row, "gpu_milli", share) if gpus == 1 else MILLI_GPU,
        models=row.words("gpu_spec"),
        cpu_milli=row.whole("cpu_milli"),
        memory=row.whole("memory_mib") * MIB,
    )


def arrival_job(row: TableRow) -> TraceJob:
    """Job from a row of a plain list. `gpus` below 1 is a share of one GPU; `pods` above 1 is a gang."""
    asked = row.number_of("gpus", 0.0)
    share = MILLI_GPU
    if 0 < asked < 1:
        share = Milli(_share(row, "gpus", round(asked * MILLI_GPU)))
        asked = 1.0
    elif asked != int(asked):
        raise row.wrong("gpus", f"is {asked:g}; expected whole GPUs, or a part of one below 1")
    duration = row.maybe_length("duration")
    return TraceJob(
        name=row.text("name", f"job-{row.number:06d}"),
        at=row.instant("arrival"),
        seconds=duration,
        stays=duration,
        pods=row.whole("pods", 1, least=1, most=MOST_PODS),
        gpus=_gpus(row, "gpus", int(asked)),
        share_milli=share,
        gpu_memory=row.amount("gpu_memory", 0),
        models=row.words("models"),
        cpu_milli=row.milli("cpu", 0),
        memory=row.amount("memory", 0),
        priority=row.whole("priority", 0, least=-HIGHEST_PRIORITY, most=HIGHEST_PRIORITY),
        namespace=row.text("namespace", "default"),
    )


def swf_rows(text: str, source: str) -> Iterator[TableRow | BadRow]:
    """Rows of a file in the Standard Workload Format: eighteen numbers a line, -1 for unknown values."""
    number = 0
    for line, written in enumerate(text.splitlines(), start=1):
        fields = written.split()
        if not fields or fields[0].startswith(";"):
            continue
        number += 1
        if len(fields) < SWF_FIELDS:
            yield BadRow(
                f"{source}: row {number} (line {line}), column {len(fields) + 1}: is missing; expected {SWF_FIELDS} "
                f"numbers, there are {len(fields)}"
            )
        else:
            yield TableRow(source, number, line, {str(place): value for place, value in enumerate(fields, start=1)})


def swf_job(row: TableRow) -> TraceJob:
    """Job from a row: fields 1 number, 2 submit, 3 wait, 4 run time, 5 processors allocated, 8 processors requested."""
    asked = row.whole("8", least=-1)
    gpus = asked if asked > 0 else row.whole("5", least=-1)
    ran = row.number_of("4", least=-1, most=LONGEST_SECONDS)
    if gpus <= 0:
        raise row.wrong("8", "no processors are said here or in column 5")
    if ran < 0:
        raise row.wrong("4", "the run time is not known")
    pods = -(-gpus // GPUS_PER_POD)
    waited = max(row.number_of("3", least=-1), 0.0)
    return TraceJob(
        name=f"job-{row.whole('1'):06d}",
        at=row.number_of("2", most=LATEST_SECONDS),
        seconds=ran,
        stays=waited + ran,
        pods=pods,
        gpus=-(-gpus // pods),
        cpu_milli=1000 * -(-gpus // pods),
    )


def _gpus(row: TableRow, column: str, gpus: int) -> int:
    if gpus > MOST_DEVICES:
        raise row.wrong(column, f"is {gpus}; expected at most {MOST_DEVICES}, all of one node")
    return gpus


def _share(row: TableRow, column: str, milli: int) -> int:
    if not 0 < milli <= MILLI_GPU:
        raise row.wrong(column, f"is {milli} thousandths of a GPU; expected 1 to {MILLI_GPU}")
    return milli

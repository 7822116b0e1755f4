"""Fleets from node lists (openb's columns or plain ones), from manifests, or from a short form such as `16*8xH100`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from ullage.agent.simulated import read_gpu_set
from ullage.errors import UserError
from ullage.kube.manifests.documents import SUFFIXES, documents
from ullage.kube.manifests.manifests import read_manifests
from ullage.model.device import MOST_DEVICES
from ullage.model.provisioner import MICROS, GpuTemplate, NodeTemplate
from ullage.model.units import Bytes, Micros
from ullage.sim.fleet.fleet import DEFAULT_GPU_MEMORY, SimulatedFleet, joined, model_label
from ullage.sim.workload.columns import ColumnNames
from ullage.sim.workload.table_reader import BadRows, RowReader, TableRow, csv_rows, header_of, json_rows, read_table
from ullage.sim.world.nodes import MODEL_LABEL
from ullage.sim.world.spec import FleetNode

MIB = 1 << 20
OPENB_COLUMNS = ColumnNames(
    dict.fromkeys(("sn", "cpu_milli", "memory_mib", "gpu", "model"), ()),
    needed=("sn", "cpu_milli", "memory_mib", "gpu", "model"),
    ignore_unknown=True,
)
PLAIN_COLUMNS = ColumnNames(
    {
        "name": ("node", "node_name", "id"),
        "cpu": ("cpus", "cores", "num_cpus", "vcpus"),
        "memory": ("mem", "ram"),
        "gpus": ("gpu", "num_gpus", "num_gpu", "n_gpus", "gpu_count"),
        "model": ("models", "gpu_model", "gpu_type", "gpu_product"),
        "gpu_memory": ("gpu_mem", "vram"),
        "islands": ("nvlink_islands",),
        "bandwidth": (),
        "price_per_hour": ("price", "cost_per_hour", "hourly_price"),
        "pool": (),
        "zone": (),
        "count": ("nodes", "number"),
    },
    needed=("name", "cpu", "memory"),
)
_WORD = re.compile(r"(?P<nodes>\d+)\*(?P<board>[0-9A-Za-z-]+)")
_BARE = re.compile(r"\d+[xX][0-9A-Za-z-]+")
_MOST_NODES = 100_000
_CORES_PER_GPU, _MEMORY_PER_GPU = 12, 96 << 30


def read_fleet(
    names: Sequence[str], *, bad_rows: BadRows = BadRows.STOP, ignore_unknown: bool = False
) -> SimulatedFleet:
    """Read all sources into one fleet. Raises UserError."""
    fleet = joined([_one(name, bad_rows, ignore_unknown) for name in names])
    seen: dict[str, None] = {}
    for node in fleet.nodes:
        if node.name in seen:
            raise UserError(f"--fleet: there are two nodes {node.name}; rename one of them")
        seen[node.name] = None
    if not fleet.nodes and not fleet.objects:
        raise UserError("--fleet: there is no node in it and nothing to buy nodes by")
    return replace(fleet, name=", ".join(Path(name).name for name in names))


def _one(name: str, bad_rows: BadRows, ignore_unknown: bool) -> SimulatedFleet:
    if said := _WORD.fullmatch(name):
        return _of_word(int(said["nodes"]), said["board"])
    path = Path(name)
    if path.is_dir() or path.suffix in SUFFIXES:
        return _of_manifests(name)
    if not path.exists():
        nearly = _BARE.fullmatch(name)
        mended = f"; did you mean 1*{name}?" if nearly else ""
        raise UserError(f"--fleet {name}: no such file; expected a file, or nodes in a word such as 16*8xH100{mended}")
    return _of_list(name, bad_rows, ignore_unknown)


def _of_word(nodes: int, gpu_set: str) -> SimulatedFleet:
    if not 1 <= nodes <= _MOST_NODES:
        raise UserError(f"--fleet {nodes}*{gpu_set}: expected 1 to {_MOST_NODES} nodes")
    gpus = read_gpu_set(gpu_set, "--fleet")
    islands = 1 if gpus.product.links and not gpus.product.group else -(-gpus.count // (gpus.product.group or 1))
    template = _template(
        cpu_milli=gpus.count * _CORES_PER_GPU * 1000,
        memory=gpus.count * _MEMORY_PER_GPU,
        gpus=GpuTemplate(
            model=gpus.product.name, count=gpus.count, memory=Bytes(gpus.product.mib * MIB), islands=max(1, islands)
        ),
    )
    digits = max(4, len(str(nodes)))
    return SimulatedFleet(nodes=tuple(FleetNode(name=f"node-{n:0{digits}d}", template=template) for n in range(nodes)))


def _of_list(path: str, bad_rows: BadRows, ignore_unknown: bool) -> SimulatedFleet:
    text, sieve = read_table(path), RowReader(bad_rows)
    plain = replace(PLAIN_COLUMNS, ignore_unknown=ignore_unknown)
    if path.lower().endswith((".jsonl", ".ndjson")):
        found = sieve.take(json_rows(text, path, plain), _plain)
    elif "sn" in header_of(text):
        found = sieve.take(csv_rows(text, path, OPENB_COLUMNS), _openb)
    else:
        found = sieve.take(csv_rows(text, path, plain), _plain)
    return SimulatedFleet(nodes=tuple(node for nodes in found for node in nodes), skipped=tuple(sieve.skipped))


def _openb(row: TableRow) -> list[FleetNode]:
    count = _count(row, "gpu")
    template = _template(
        cpu_milli=row.whole("cpu_milli"),
        memory=row.whole("memory_mib") * MIB,
        gpus=GpuTemplate(
            model=row.text("model", "none" if not count else None),
            count=count,
            memory=Bytes(DEFAULT_GPU_MEMORY),
            islands=max(1, count),
        ),
    )
    return [FleetNode(name=row.text("sn"), template=template)]


def _plain(row: TableRow) -> list[FleetNode]:
    name, count, gpus = row.text("name"), row.whole("count", 1, least=1, most=_MOST_NODES), _count(row, "gpus")
    islands = row.whole("islands", 1, least=1)
    if gpus and gpus % islands:
        raise row.wrong("islands", f"is {islands}; expected islands of equal size of {gpus} GPUs")
    template = _template(
        cpu_milli=row.milli("cpu"),
        memory=row.amount("memory"),
        gpus=GpuTemplate(
            model=row.text("model", "none" if not gpus else None),
            count=gpus,
            memory=Bytes(row.amount("gpu_memory", DEFAULT_GPU_MEMORY)),
            islands=islands,
            bandwidth=row.whole("bandwidth", 0),
        ),
        price=int(Decimal(str(row.number_of("price_per_hour", 0.0, most=1_000_000.0))) * MICROS),
    )
    names = [name] if count == 1 else [f"{name}-{number:04d}" for number in range(count)]
    return [
        FleetNode(name=one, template=template, pool=row.text("pool", ""), zone=row.text("zone", "")) for one in names
    ]


def _of_manifests(path: str) -> SimulatedFleet:
    """Fleet from manifests. They are read as facts first, so that errors name file, document and field."""
    found = read_manifests([path])
    objects = tuple(body for document in documents([path]) for body in _flat(document.body))
    templates = tuple(pool.template for pool in found.provisioners)
    return SimulatedFleet(objects=objects, templates=templates, warnings=found.warnings)


def _flat(body: Any) -> Iterator[dict[str, Any]]:
    kind = str(body.get("kind", ""))
    if not (kind.endswith("List") and "items" in body):
        yield body
        return
    said = {} if kind == "List" else {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List")}
    for item in body["items"] or ():
        yield from _flat({**said, **item})


def _template(*, cpu_milli: int, memory: int, gpus: GpuTemplate, price: int = 0) -> NodeTemplate:
    labels = {MODEL_LABEL: model_label(gpus.model)} if gpus.count else {}
    return NodeTemplate(
        gpus=gpus, labels=labels, resources={"cpu": cpu_milli, "memory": memory * 1000}, price=Micros(price)
    )


def _count(row: TableRow, column: str) -> int:
    count = row.whole(column, 0)
    if count > MOST_DEVICES:
        raise row.wrong(column, f"is {count}; expected at most {MOST_DEVICES}")
    return count

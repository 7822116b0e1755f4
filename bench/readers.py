"""The two readers of the sync benchmark, each in its own process: `python -m bench.readers ours|official KUBECONFIG`.

Prints one JSON object: seconds to sync (wall and CPU), CPU seconds to decode the same bytes, bytes held per pod.
"""

import asyncio
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = 500


def resident() -> int:
    """Bytes of memory this process holds now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measured(decode: Callable[[list[bytes]], Any], pages: list[bytes], pods: int) -> dict[str, float]:
    """CPU seconds and bytes per pod of decoding pages and holding the result."""
    before, start = resident(), time.process_time()
    held = decode(pages)
    cpu = time.process_time() - start
    grown = resident() - before
    del held
    return {"decode_cpu": cpu, "pod_bytes": grown / max(pods, 1)}


async def ours(kubeconfig: Path) -> dict[str, float]:
    """Both informers from nothing to synced, then the same bytes decoded once more."""
    from ullage.clock import WallClock
    from ullage.kube.auth.connect import connect
    from ullage.kube.client.resources import NODES, PODS
    from ullage.kube.read import read_node, read_pod
    from ullage.watch.informer import Informer, InformerSpec

    api = connect(kubeconfig)
    wall, cpu = time.perf_counter(), time.process_time()
    pods = Informer(api, InformerSpec(PODS, read_pod), _ignore, rng=random.Random(0), clock=WallClock())
    nodes = Informer(api, InformerSpec(NODES, read_node), _ignore, rng=random.Random(0), clock=WallClock())
    running = [asyncio.ensure_future(pods.run()), asyncio.ensure_future(nodes.run())]
    await asyncio.gather(pods.wait_synced(), nodes.wait_synced())
    synced = {"sync_wall": time.perf_counter() - wall, "sync_cpu": time.process_time() - cpu, "resident": resident()}
    counted = {"pods": len(pods.facts), "nodes": len(nodes.facts)}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await api.close()
    return {**synced, **counted, **measured(_decode_ours, raw_pages(kubeconfig), counted["pods"])}


def _ignore(event: object) -> None:
    """The benchmark's state: nothing."""


def _decode_ours(pages: list[bytes]) -> list[Any]:
    """As the informer does: bytes to structs to facts, holding the facts."""
    from ullage.kube.client.json_codec import decode_list
    from ullage.kube.client.resources import PODS
    from ullage.kube.read import read_pod

    return [read_pod(pod) for page in pages for pod in decode_list(PODS, page, "pods").items or ()]


def official(kubeconfig: Path) -> dict[str, float]:
    """The official client's own way to list in pages, holding its objects."""
    import kubernetes

    kubernetes.config.load_kube_config(str(kubeconfig))  # type: ignore[no-untyped-call]  # it has no types
    core = kubernetes.client.CoreV1Api()
    wall, cpu = time.perf_counter(), time.process_time()
    held = [_all_pages(core.list_pod_for_all_namespaces), _all_pages(core.list_node)]
    result = {"sync_wall": time.perf_counter() - wall, "sync_cpu": time.process_time() - cpu, "resident": resident()}
    pods, nodes = (len(items) for items in held)
    held.clear()
    return {**result, "pods": pods, "nodes": nodes, **measured(_decode_official, raw_pages(kubeconfig), pods)}


def _all_pages(list_some: Callable[..., Any]) -> list[Any]:
    items: list[Any] = []
    token: str | None = None
    while True:
        page = list_some(limit=PAGE, _continue=token)
        items += page.items
        token = page.metadata._continue
        if not token:
            return items


def _decode_official(pages: list[bytes]) -> list[Any]:
    import kubernetes

    client = kubernetes.client.ApiClient()
    items: list[Any] = []
    for page in pages:
        items += client.deserialize(page.decode(), "V1PodList", "application/json").items
    return items


def raw_pages(kubeconfig: Path) -> list[bytes]:
    """The pods as the server sends them, not decoded: the same bytes for both."""
    import kubernetes

    kubernetes.config.load_kube_config(str(kubeconfig))  # type: ignore[no-untyped-call]  # it has no types
    core = kubernetes.client.CoreV1Api()
    pages: list[bytes] = []
    token: str | None = None
    while True:
        answer: Any = core.list_pod_for_all_namespaces(limit=PAGE, _continue=token, _preload_content=False)
        page = bytes(answer.data)
        pages.append(page)
        token = json.loads(page)["metadata"].get("continue")
        if not token:
            return pages


def main() -> None:
    reader, kubeconfig = sys.argv[1], Path(sys.argv[2])
    result = asyncio.run(ours(kubeconfig)) if reader == "ours" else official(kubeconfig)
    print(json.dumps(result))


if __name__ == "__main__":
    main()

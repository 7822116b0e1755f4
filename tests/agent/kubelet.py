"""A stand-in for kubelet's PodResources: a real gRPC server on a unix socket, with answers of our own making."""

import importlib
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GPU = "nvidia.com/gpu"


@dataclass
class Kubelet:
    """What it would answer. Devices are (resource, ids) pairs."""

    pods: dict[tuple[str, str], Sequence[tuple[str, Sequence[str]]]] = field(default_factory=dict)
    managed: Sequence[tuple[str, Sequence[str]]] = ()
    broken: bytes = b""
    """Said instead of an answer."""

    def list(self) -> bytes:
        return self.broken or b"".join(message(1, self._pod(*key, given)) for key, given in self.pods.items())

    def allocatable(self) -> bytes:
        # Fields 2 (CPUs, packed) and 3 (memory) are there, too, and are none of our business.
        return b"".join(message(1, devices(*one)) for one in self.managed) + message(2, b"\x00\x01\x02")

    def _pod(self, namespace: str, name: str, given: Iterable[tuple[str, Sequence[str]]]) -> bytes:
        container = message(1, b"main") + b"".join(message(2, devices(*one)) for one in given) + message(3, b"\x05")
        return message(1, name.encode()) + message(2, namespace.encode()) + message(3, container)


def devices(resource: str, ids: Sequence[str]) -> bytes:
    numa = b"\x08\x01"  # a number, as NUMA nodes are
    return message(1, resource.encode()) + b"".join(message(2, one.encode()) for one in ids) + message(3, numa)


def message(number: int, content: bytes) -> bytes:
    """A field that holds bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    if value < 0x80:
        return bytes([value])
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7)


@asynccontextmanager
async def serving(kubelet: Kubelet, socket: Path) -> AsyncIterator[None]:
    """It answers at this socket during the block."""
    grpc: Any = importlib.import_module("grpc")
    aio: Any = importlib.import_module("grpc.aio")

    def method(answer: Any) -> Any:
        async def handle(_request: bytes, _context: Any) -> bytes:
            return bytes(answer())

        return grpc.unary_unary_rpc_method_handler(handle, request_deserializer=bytes, response_serializer=bytes)

    server = aio.server()
    methods = {"List": method(kubelet.list), "GetAllocatableResources": method(kubelet.allocatable)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", methods),))
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)

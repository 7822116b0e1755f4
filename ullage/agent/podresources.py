"""PodResources API of kubelet, over its unix socket: the devices that device plugins gave to each pod.

The few messages of `podresources/v1` that are needed are decoded here by their field numbers, so no generated code is
needed; `grpcio` carries them and is imported only when used.
"""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ullage.errors import UserError
from ullage.model.fact_event import ObjectKey

T = TypeVar("T")

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
VENDOR = "nvidia.com/"
_LIST = "/v1.PodResourcesLister/List"
_ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"
_ANSWER_LIMIT = 16 << 20


class KubeletUnavailable(Exception):
    """kubelet could not be asked, or its answer could not be decoded."""


@dataclass(frozen=True, slots=True)
class AllocatedDevices:
    """Devices of one resource that a pod was given."""

    pod: ObjectKey
    resource: str
    ids: tuple[str, ...]


class PodResources:
    """Asks kubelet. Each call opens a connection of its own: kubelet restarts."""

    def __init__(self, socket: Path = SOCKET, *, timeout: float = 2.0) -> None:
        self._socket = socket
        self._timeout = timeout

    @staticmethod
    def check() -> None:
        """Raises UserError where `grpcio` is not installed."""
        _grpc()

    async def given(self) -> tuple[AllocatedDevices, ...]:
        """Devices of our vendor that pods have. Raises KubeletUnavailable."""
        return await self._ask(_LIST, _read_list)

    async def managed(self) -> frozenset[str]:
        """Ids of our vendor's devices that device plugins manage here. Raises KubeletUnavailable."""
        return await self._ask(_ALLOCATABLE, _read_allocatable)

    async def _ask(self, method: str, read: Callable[[bytes], T]) -> T:
        if not self._socket.exists():
            raise KubeletUnavailable(f"{self._socket} is not there")
        grpc = _grpc()
        options = [("grpc.max_receive_message_length", _ANSWER_LIMIT)]
        async with grpc.aio.insecure_channel(f"unix://{self._socket.absolute()}", options=options) as channel:
            call = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
            try:
                answer = await call(b"", timeout=self._timeout)
            except grpc.aio.AioRpcError as error:
                raise KubeletUnavailable(f"kubelet at {self._socket}: {error.code().name} {error.details()}") from error
        try:
            return read(answer)
        except ValueError as error:
            raise KubeletUnavailable(f"kubelet at {self._socket}: {error}") from error


def _grpc() -> Any:
    try:
        module = importlib.import_module("grpc")
        importlib.import_module("grpc.aio")
    except ModuleNotFoundError:
        raise UserError("grpcio is not installed and kubelet cannot be asked; install ullage[agent]") from None
    return module


def _read_list(answer: bytes) -> tuple[AllocatedDevices, ...]:
    found = []
    for pod in _parts(answer, 1):
        key = ObjectKey(_text(pod, 2), _text(pod, 1))
        for container in _parts(pod, 3):
            for devices in _parts(container, 2):
                resource = _text(devices, 1)
                if resource.startswith(VENDOR):
                    found.append(AllocatedDevices(key, resource, tuple(part.decode() for part in _parts(devices, 2))))
    return tuple(found)


def _read_allocatable(answer: bytes) -> frozenset[str]:
    ours = [devices for devices in _parts(answer, 1) if _text(devices, 1).startswith(VENDOR)]
    return frozenset(part.decode() for devices in ours for part in _parts(devices, 2))


def _text(message: bytes, field: int) -> str:
    return next((part.decode() for part in _parts(message, field)), "")


def _parts(message: bytes, field: int) -> Iterator[bytes]:
    """The texts, bytes or messages under one field number. Raises ValueError for what is no such message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("the answer is cut off")
            if key >> 3 == field:
                yield message[at : at + size]
            at += size
        else:
            raise ValueError(f"the answer has a field of kind {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("the answer is cut off")

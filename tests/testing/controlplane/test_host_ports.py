"""Ports: free, outside the range clients get theirs from, and never handed out twice."""

import socket
from pathlib import Path

import pytest

from ullage.testing.controlplane import GoProgram, launcher
from ullage.testing.controlplane.fixtures import prepare
from ullage.testing.controlplane.ports import PortReservation, reserve_port
from ullage.testing.controlplane.spec import ControlPlaneSpec


def test_reservations_differ_until_they_are_given_back() -> None:
    held = [reserve_port() for _ in range(5)]
    assert len({reservation.port for reservation in held}) == 5
    first = held[0].port
    for reservation in held:
        reservation.release()
    again = reserve_port()
    again.release()
    assert again.port == first


def test_no_outgoing_connection_can_get_a_reserved_port() -> None:
    lowest_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    reservation = reserve_port()
    reservation.release()
    assert 1024 < reservation.port < lowest_of_clients


def test_a_port_somebody_listens_on_is_passed_over() -> None:
    free = reserve_port()
    free.release()
    with socket.create_server(("127.0.0.1", free.port)):
        other = reserve_port()
        other.release()
    assert other.port != free.port


@pytest.mark.real
def test_a_port_lost_at_the_last_moment_means_other_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief, open("/dev/null") as unlocked:
        stolen = [PortReservation(thief.getsockname()[1], unlocked)]
        monkeypatch.setattr(launcher, "reserve_port", lambda: stolen.pop() if stolen else reserve_port())
        with prepare(ControlPlaneSpec(components=[GoProgram.ETCD])) as plane:
            assert plane.is_running(GoProgram.ETCD)
    assert stolen == []

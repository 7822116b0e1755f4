"""Removals are tried in both worlds of the contract suite."""

from tests.contract.conftest import access, api, ns, world

__all__ = ["access", "api", "ns", "world"]

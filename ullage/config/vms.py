"""Settings of VMs: grants, pressure, migrations, scores and the agents that are answered. See docs/vms.md.

Watermarks, system reserves and compute units of nodes are no settings: they are in a ConfigMap.
"""

from dataclasses import dataclass
from typing import ClassVar

from ullage.config.declaration import setting
from ullage.config.values import Boolean, Duration, Fraction, IntRange, OneOf, PositiveFloat, Text
from ullage.model.units import Seconds
from ullage.model.vm import GrantMode, RestartRule


@dataclass(frozen=True, slots=True, kw_only=True)
class VmSettings:
    """Live-resizable VMs: `ullage scheduler`. They count once the cluster serves VirtualMachine."""

    flag_prefix: ClassVar[str] = "vm-"

    grant: str = setting(
        GrantMode.PER_RESOURCE.value,
        OneOf(tuple(one.value for one in GrantMode)),
        "What a request that does not fit gets: what is free of each resource, or whole compute units of both.",
        live=True,
    )
    restart: str = setting(
        RestartRule.TRUST_APPROVED.value,
        OneOf(tuple(one.value for one in RestartRule)),
        "Whether approvals found on pods are believed after a restart, or every VM counts by its maximum until its "
        "agent's first message.",
    )
    capacity_pressure_factor: float = setting(
        1.0, PositiveFloat(), "Weight of requests that were denied in a node's pressure.", live=True
    )
    pressure_sustained: Seconds = setting(
        Seconds(30.0), Duration(), "How long pressure lasts before a VM is migrated for it.", live=True
    )
    silent_after: Seconds = setting(
        Seconds(60.0),
        Duration(1.0),
        "Time without a message after which a VM's denied request is no pressure any more.",
        live=True,
    )
    migrate: bool = setting(True, Boolean(), "Migrate VMs away from nodes under pressure.", live=True)
    migrations_per_node: int = setting(2, IntRange(1, 100), "Migrations under way from one node at most.", live=True)
    migration_cooldown: Seconds = setting(
        Seconds(1800.0),
        Duration(),
        "Time from the start of a VM's migration until it may be migrated again.",
        live=True,
    )
    node_need_after: Seconds = setting(
        Seconds(60.0),
        Duration(),
        "How long VMs that should be migrated find no node with room, before a new node is bought for them; and how "
        "long they need none, before that is taken back.",
        live=True,
    )
    min_usage_score: float = setting(0.5, Fraction(), "Score of an empty node for a VM pod.")
    max_usage_score: float = setting(0.0, Fraction(), "Score of a full node for a VM pod.")
    score_peak: float = setting(
        0.6,
        Fraction(),
        "Part of a node in use at which it scores best for a VM pod; between 0 and 1, and never above its watermark.",
    )
    agent_account: str = setting(
        "ullage-system/ullage-vm-agent", Text(), "ServiceAccount of the agents, as NAMESPACE/NAME. Others are refused."
    )
    token_cache: Seconds = setting(Seconds(60.0), Duration(), "How long the answer about an agent's token is believed.")

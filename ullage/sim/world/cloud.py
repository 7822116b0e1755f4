"""The cloud of a simulated world: machines boot, become Nodes, show their GPUs, and are paid for from the first moment.

A NodeProvisioner's parameters say how: `bootSeconds`, `gpuSeconds`, `capacity`. It plays every provider there is.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

from ullage.clock import Clock
from ullage.cloud.api import CloudProvider, Created, CreateRequest, PoolRef
from ullage.cloud.simulated import Behaviour, SimulatedCloud
from ullage.errors import AlreadyExists, NotFound
from ullage.kube.resources import NODES
from ullage.model.instance import Instance
from ullage.model.device import Inventory
from ullage.model.provisioner import NodeTemplate
from ullage.sim.world.agents import AgentFleet
from ullage.sim.world.hand import Hand
from ullage.sim.world.nodes import node_manifest, node_room
from ullage.sim.world.spec import CloudSpec, FleetNode

OnMachine = Callable[[Instance, NodeTemplate], None]

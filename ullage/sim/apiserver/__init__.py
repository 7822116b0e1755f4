"""An API server in memory: kube-apiserver's REST semantics, deterministic, with history that really ends.

`SimulatedApiServer` is the synchronous core; `InMemoryTransport` puts latency and faults between it and a client.
What kube-apiserver does is right by definition; where this one knowingly does less, it says so in its answer.
"""

from ullage.sim.apiserver.server import SimulatedApiServer
from ullage.sim.apiserver.transport import InMemoryTransport

__all__ = ["InMemoryTransport", "SimulatedApiServer"]

from ullage.kube.transport import Response
from ullage.sim.apiserver.call import Call, unknown_format
from ullage.sim.apiserver.world import World


def apply(call: Call, world: World) -> Response:
    raise unknown_format()

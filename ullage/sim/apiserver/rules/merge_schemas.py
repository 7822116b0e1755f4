"""Merge schemas of the built-in kinds for server-side apply: lists with keys, and atomic values."""

from ullage.sim.apiserver.merge.merge_schema import ATOMIC, ATOMIC_UNKNOWN, SET, MergeSchema, keyed, members

META = members(
    ATOMIC,
    labels=members(ATOMIC),
    annotations=members(ATOMIC),
    finalizers=SET,
    ownerReferences=keyed("uid", item=ATOMIC),
)

_PROTOCOL = {"protocol": "TCP"}
_CONTAINER = members(
    ATOMIC_UNKNOWN,
    env=keyed("name"),
    ports=keyed("containerPort", "protocol", defaults=_PROTOCOL),
    volumeMounts=keyed("mountPath"),
    volumeDevices=keyed("devicePath"),
)
_CONTAINERS = keyed("name", item=_CONTAINER)
POD_SPEC = members(
    ATOMIC_UNKNOWN,
    containers=_CONTAINERS,
    initContainers=_CONTAINERS,
    ephemeralContainers=_CONTAINERS,
    nodeSelector=ATOMIC,
    volumes=keyed("name"),
    imagePullSecrets=keyed("name"),
    hostAliases=keyed("ip"),
    topologySpreadConstraints=keyed("topologyKey", "whenUnsatisfiable"),
    schedulingGates=keyed("name"),
    resourceClaims=keyed("name"),
)
_CONDITIONS = keyed("type")
_STATUS = members(ATOMIC_UNKNOWN, conditions=_CONDITIONS)


def kind_schema(spec: MergeSchema = ATOMIC_UNKNOWN, status: MergeSchema = _STATUS) -> MergeSchema:
    return members(ATOMIC_UNKNOWN, metadata=META, spec=spec, status=status, apiVersion=ATOMIC, kind=ATOMIC)


POD = kind_schema(POD_SPEC, members(ATOMIC_UNKNOWN, conditions=_CONDITIONS, podIPs=keyed("ip"), hostIPs=ATOMIC))
NODE = kind_schema(
    members(ATOMIC_UNKNOWN, taints=ATOMIC, podCIDRs=SET),
    members(ATOMIC_UNKNOWN, conditions=_CONDITIONS, addresses=keyed("type")),
)
_TEMPLATE = members(ATOMIC_UNKNOWN, metadata=META, spec=POD_SPEC)
WORKLOAD = kind_schema(members(ATOMIC_UNKNOWN, selector=ATOMIC, template=_TEMPLATE))
BUDGET = kind_schema(members(ATOMIC_UNKNOWN, selector=ATOMIC))
SERVICE = kind_schema(
    members(ATOMIC_UNKNOWN, ports=keyed("port", "protocol", defaults=_PROTOCOL), selector=ATOMIC, finalizers=SET)
)
PLAIN = kind_schema()
SERVICE_ACCOUNT = members(
    ATOMIC_UNKNOWN, metadata=META, secrets=keyed("name"), imagePullSecrets=keyed("name"), apiVersion=ATOMIC, kind=ATOMIC
)

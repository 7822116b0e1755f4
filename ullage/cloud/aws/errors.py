"""What EC2 says, as what follows from it. By its error codes; what is not known here is refused."""

from collections.abc import Mapping

from ullage.cloud.api import CloudError, NoCapacity, OutcomeUnknown, QuotaReached, Refused, Throttled

_CODES: Mapping[type[CloudError], tuple[str, ...]] = {
    NoCapacity: (
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientCapacity",
        "InsufficientFreeAddressesInSubnet",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
    ),
    QuotaReached: (
        "InstanceLimitExceeded",
        "MaxSpotInstanceCountExceeded",
        "MaxSpotFleetRequestCountExceeded",
        "RequestResourceCountExceeded",
        "VcpuLimitExceeded",
        "VolumeLimitExceeded",
    ),
    Throttled: (
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "RequestLimitExceeded",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    ),
    OutcomeUnknown: (
        "InternalError",
        "InternalFailure",
        "RequestTimeout",
        "ServiceUnavailable",
        "Unavailable",
    ),
}
_KIND = {code: kind for kind, codes in _CODES.items() for code in codes}

ALREADY_GONE = "IdempotentInstanceTerminated"
"""The purchase was made, and an instance of it has gone since."""
NOT_FOUND = "InvalidInstanceID.NotFound"


def error_of(code: str, message: str, *, status: int = 0) -> CloudError:
    """The error a code stands for. A failing server that does not say why may have done it."""
    kind = _KIND.get(code, OutcomeUnknown if status >= 500 else Refused)
    return kind(f"{code}: {message}")

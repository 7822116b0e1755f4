"""EC2 error codes as cloud errors. An unknown code is a RequestRejected, or with a status of 5xx an OutcomeUnknown."""

from collections.abc import Mapping

from ullage.cloud.api import CloudError, NoCapacity, OutcomeUnknown, QuotaReached, RequestRejected, Throttled

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
"""The purchase was made, and an instance of it has been terminated since."""
NOT_FOUND = "InvalidInstanceID.NotFound"


def error_of(code: str, message: str, *, status: int = 0) -> CloudError:
    """Cloud error for a code. A failing server (5xx) without a known code may have carried out the call."""
    kind = _KIND.get(code, OutcomeUnknown if status >= 500 else RequestRejected)
    return kind(f"{code}: {message}")

"""Numbers that may be given as a percentage: `3`, `"25%"`. Pure."""


def portion(value: int | str, total: int, *, round_up: bool) -> int:
    """The absolute number, given the total."""
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        return int(value)
    exact = int(value[:-1]) * total
    return -(-exact // 100) if round_up else exact // 100

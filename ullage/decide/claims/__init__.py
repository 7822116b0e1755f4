"""Claim and quota status: computed from the snapshot and the scheduler's feedback. No I/O."""

"""VmChanges: wakes the loops of the VM system when a number of the ledger may be another one."""

from ullage.runtime import Wakeup


class VmChanges:
    """Changes of one scheduler's VM ledger. Each of its two readers has a wake-up of its own."""

    def __init__(self) -> None:
        self.migrations = Wakeup()
        """For the loop that migrates VMs."""
        self.config = Wakeup()
        """For what follows the node configuration, and waits until VMs are served at all."""

    def note(self) -> None:
        """Note a change."""
        self.migrations.set()
        self.config.set()

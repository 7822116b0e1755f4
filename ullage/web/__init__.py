"""The dashboard: what the control plane sees and why it acted, in a browser. Read-only."""

"""Fidelity of the simulator: one story on a real control plane and in the simulator, compared. Decides nothing."""

"""Preemption: who must go, and whom nobody may touch."""

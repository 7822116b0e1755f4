"""Fake nodes by KWOK, or by simulated kubelets."""

"""Karpenter system of the controller: wiring, loop and reporter."""

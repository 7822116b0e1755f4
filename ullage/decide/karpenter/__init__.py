"""S1: capacity requests served by Karpenter through smart pods. Pure; `control.karpenter` runs it."""

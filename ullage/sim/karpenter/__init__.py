"""Simulated Karpenter, and the kube-scheduler whose conditions it acts on. Both use KubeApi only."""

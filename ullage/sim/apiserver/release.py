"""Release of Kubernetes that the simulated server behaves like: the one that the test control plane runs by default."""

RELEASE = "1.37.1"
MINOR = RELEASE.rpartition(".")[0]

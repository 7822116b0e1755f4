"""Client of the Kubernetes API: the `KubeApi` protocol, its implementation over a transport, and codecs."""

"""Authentication: kubeconfig, service account, credential plugins, TLS."""

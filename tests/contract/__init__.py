"""What `KubeApi` promises, said once and asked of both worlds: a real kube-apiserver and the one in memory.

The real one is right by definition: a test that fails there is wrong. Tests know nothing of the world they run in.
"""

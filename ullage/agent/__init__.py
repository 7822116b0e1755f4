"""The node daemon: reads the GPUs of its node and keeps the cluster's word on them true."""

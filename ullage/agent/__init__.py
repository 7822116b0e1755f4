"""Node agent: reads the GPUs of its node and keeps the node's GpuNodeStatus and Node true."""

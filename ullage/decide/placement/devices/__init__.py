"""Device choice: exact GPUs or MIG instances of one node for a DeviceRequest."""

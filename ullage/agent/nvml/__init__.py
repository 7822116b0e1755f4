"""GPUs through NVIDIA's management library, by way of `nvidia-ml-py`."""

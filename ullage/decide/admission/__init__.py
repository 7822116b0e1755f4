"""Admission decisions for pods, Bindings and GpuClaims. Pure."""

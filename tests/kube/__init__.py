"""Tests of `ullage.kube`: the client's logic over a scripted transport, and the transport over a real socket."""

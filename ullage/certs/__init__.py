"""Certificates of the webhook: issuing, the shared Secret, rotation, and the TLS context of the server."""

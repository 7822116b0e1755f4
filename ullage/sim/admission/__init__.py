"""Admission webhook of the simulated API server: the same reviews and the same reviewer, without TLS and sockets.

`post_webhook(server, policy)` is all there is to call. Nothing is decided here; `webhook.reviewer` does that.
"""

from ullage.sim.admission.gate import WebhookAdmission, post_webhook

__all__ = ["WebhookAdmission", "post_webhook"]

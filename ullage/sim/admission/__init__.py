"""The webhook at the door of the simulated API server: the same questions, the same judge, without TLS and sockets.

`post_webhook(server, policy)` is all there is to call. Nothing is judged here; `webhook.reviewing` does that.
"""

from ullage.sim.admission.door import WebhookGate, post_webhook

__all__ = ["WebhookGate", "post_webhook"]

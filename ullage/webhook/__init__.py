"""Admission webhook over HTTPS: reads a review, lets `decide` choose the patch or the denial, and sends the answer."""

"""Admission over HTTPS: a review comes in, `decide` says what to patch or refuse, the answer goes out."""

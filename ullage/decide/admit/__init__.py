"""Admission, judged: what a pod with a claim is changed to, what is refused, and when certificates are renewed.

Pure: reviews come in as facts of `model.admission`, the claim they are about beside them; judgements go out.
"""

"""kube-scheduler's own scores: each a vector of 0 to 100 over rows, added up with its weights.

Only rows that fit are compared; the numbers of others mean nothing. Not here: its default spreading, which needs
Services, and its scores for DRA.
"""

from ullage.decide.placement.score.kube.total import WEIGHTS, KubeScores, ShapeScores

__all__ = ["WEIGHTS", "KubeScores", "ShapeScores"]

"""Explanations for people: a pod's rejections, next steps, and what-if plans of scheduler and autoscaler."""

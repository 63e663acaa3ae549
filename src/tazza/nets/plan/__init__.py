"""Compiled nets: rewritten, laid out and memory-planned for the signature of what they read."""

from tazza.nets.plan.net import PlanNet

__all__ = ["PlanNet"]

"""Whole models, each in a module of its name."""

from tazza.models.zoo.lenet import Training, lenet, lenet_training, pixels

__all__ = ["Training", "lenet", "lenet_training", "pixels"]

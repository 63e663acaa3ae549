"""Whole models, each in a module of its name. `CLASSIFIERS` has all that sort images, by name."""

from tazza.models.zoo import char_lstm, googlenet, mlp, mobilenet, resnet, squeezenet, vgg
from tazza.models.zoo.classifier import CLASSIFIERS, Classifier, classifier
from tazza.models.zoo.lenet import Training, lenet, lenet_training, pixels

__all__ = [
    "CLASSIFIERS",
    "Classifier",
    "Training",
    "char_lstm",
    "classifier",
    "googlenet",
    "lenet",
    "lenet_training",
    "mlp",
    "mobilenet",
    "pixels",
    "resnet",
    "squeezenet",
    "vgg",
]

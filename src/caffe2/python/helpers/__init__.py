"""Functions that `brew` lends: layers as operators of a model's net, and the parameters that they need."""

"""Nothing: a module that Caffe2 had, and that was empty."""

"""Programs that showed how Caffe2 is used."""

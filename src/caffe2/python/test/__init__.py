"""What Caffe2's own tests share."""

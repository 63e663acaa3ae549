"""The old import names of the messages: `from caffe2.proto import caffe2_pb2`."""

"""The engine `gemm`: convolution the way Caffe2 computed it on the CPU, as matrix products of the BLAS behind NumPy."""

"""Each operator on its best engine beside the same operator of PyTorch eager."""

"""Times of ranks: reductions beside those of mpi4py, and steps with and without others."""

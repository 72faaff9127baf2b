"""What the kernels in C must equal: the same functions in Python, which serve where the kernels are not built."""

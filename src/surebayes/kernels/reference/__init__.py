"""Reference implementations of the C kernels in Python, and the fallback if the kernels are not built."""

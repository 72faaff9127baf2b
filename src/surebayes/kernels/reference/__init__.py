"""Reference implementations of the C kernels in Python, and the fallback where the kernels are not built."""

"""mmbench: a benchmark for CUDA matrix multiplication kernels."""

__version__ = "0.1.0"

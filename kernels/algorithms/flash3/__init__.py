"""FlashAttention-3 (Shah et al., arXiv 2407.08608) on Hopper: what the host does for `kernels.hopper`."""

"""Tensors on accelerators (CUDA devices), copied to the CPU for an operation and back.

**Copy stream**: a side stream of one device, on which copies run beside the caller's own work.
**Host copy**: a tensor in pinned (page-locked) memory, which stands for a tensor of the caller's in one call.
"""

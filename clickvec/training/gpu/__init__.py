"""Training on a GPU: a whole update as one CUDA graph of Triton kernels.

`kernels.py` holds the kernels, `gpu_tower.py` calls them for one side, `feed.py` draws minibatches ahead of time,
`graph.py` puts an update together.
"""

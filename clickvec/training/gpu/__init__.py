"""Training on a GPU: a whole update as one CUDA graph of Triton kernels.

`kernels.py` holds the kernels, `gpu_tower.py` calls them for one side, `sparse_rows.py` updates the touched rows of an
input matrix, `feed.py` draws minibatches ahead of time, `graph.py` puts an update together.
"""

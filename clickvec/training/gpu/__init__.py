"""Training on a GPU: a whole update as one CUDA graph of Triton kernels.

`kernels.py` computes, `tower.py` calls the kernels for one side, `rows.py` keeps the rows of an input matrix that wait,
`feed.py` draws minibatches ahead of time, `update.py` puts an update together.
"""

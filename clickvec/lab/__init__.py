"""The laboratory: the paper's comparison table and checks of its claims. The product never imports this package.

compare/        `clickvec lab compare`: fit every system, score, test the differences, write the table
other_systems/  the systems that are compared with ours: PLSA, Doc2Vec, Skip-Thought, a transformer, hybrids
simulate/       `clickvec lab simulate`: the built-in click log
claims/         checks of what the paper says about gates, cells and topics
"""

"""The paper's table for any log and judged set: fit every system, score, test, break down, write."""

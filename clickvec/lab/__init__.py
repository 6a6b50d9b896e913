"""The paper's table and its checks. The product never imports this package."""

"""Launches of solvers that stay on the device: conjugate gradients and PageRank around those of a product."""

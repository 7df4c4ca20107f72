"""Bundles: runs that others submit as one file, and the checks that they must pass.

`pack` writes a run's folder into a bundle. `check` verifies a bundle, or a run's folder, as far as possible without the
GPU that measured it. `sources` knows the source hashes of this project's formats. `trial` runs submitted formats in a
container. docs/submitting.md explains how to submit.
"""

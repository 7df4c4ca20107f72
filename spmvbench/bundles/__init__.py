"""Results that strangers hand in: a run in one file, and the checks that it has to pass.

`pack` writes a run's folder into a bundle, `check` holds a bundle (or a run's folder) to what can be verified without
the GPU that measured it, `sources` knows which sources of formats were this project's.
docs/submitting.md is the page for who hands in.
"""

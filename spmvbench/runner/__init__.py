"""The processes that drive the measuring process: cases of a run, one driver per device, clusters, A/B comparison.

`plan` makes the cases. `session` measures them with one `driver`, `cluster` with many. `precompile`, `prefetch` and
`estimate` (with `costs`) save or predict time. `ab` compares two builds; `api` is `spmvbench.run`.
"""

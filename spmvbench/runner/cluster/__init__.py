"""Many GPUs: dask.distributed sends groups of cases to its workers and returns their rows.

Each Dask worker has one GPU and drives a replaceable measuring process, as one invocation does on one device
(`remote`). The process that the user started assigns the work and writes every row (`session`, `scheduling`). Dask
itself never repeats a task: the work of a lost worker is rescheduled here, where the rows on disk are known.
"""

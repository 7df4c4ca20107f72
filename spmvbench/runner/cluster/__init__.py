"""Many GPUs: dask.distributed carries groups of cases to its workers and their rows back.

A Dask worker has one GPU and drives a replaceable measuring process as a session does (`remote`); the process that the
user started deals out the work and writes every row (`session`). Dask itself never repeats a task: what a lost worker
had is dealt again here, where it is known which rows are on disk.
"""

"""Formats that stage x in shared memory or order it for the caches."""

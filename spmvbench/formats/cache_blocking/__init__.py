"""A part of x or of y in shared memory, or in the cache: windows on the vectors."""

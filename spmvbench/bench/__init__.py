"""Measuring: cases are planned, a worker process times and judges them, every case becomes a row."""

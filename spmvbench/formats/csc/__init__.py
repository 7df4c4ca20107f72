"""Compressed sparse columns."""

"""Lanes of warps that are given about the same number of entries, whatever the lengths of their rows."""

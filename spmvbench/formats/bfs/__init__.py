"""Breadth-first search on a graph's pattern: a format and the launches of one search.

Shared idea: each level either pushes from its vertices or pulls into vertices that have no level yet.
`bfs-push`, `bfs-do`: quads of neighbours (frontier queues: Merrill, Garland & Grimshaw, PPoPP 2012; directions: Beamer,
Asanovic & Patterson, SC'12). `tile-bfs`: tiles of bits (Ji et al., ICPP'22). `bfs-merged`: quads of
vertices that are merged because they have the same neighbours (Ashcraft, SISC 1995).
"""

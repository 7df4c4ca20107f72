"""A site of several reports: static pages of matrices and formats, an index, and a search that needs no server."""

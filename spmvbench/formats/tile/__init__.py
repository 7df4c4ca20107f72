"""TileSpMV: every tile in a format of its own."""

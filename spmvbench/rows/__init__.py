"""Rows: the columns of a case's result, and the folder of a run that holds them."""

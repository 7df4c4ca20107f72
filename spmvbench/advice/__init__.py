"""Which format for a matrix: training on published rows, the model that ships, and the features that it uses.

`auto` is the format that the model chooses, inside its conversion.
"""

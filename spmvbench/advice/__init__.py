"""Which format for a matrix: training on published rows, the model that ships, and the features that it uses."""

"""Which format for a matrix: a model of published rows (training), what it ships (model), what it looks at (traits)."""

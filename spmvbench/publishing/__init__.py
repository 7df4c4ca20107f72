"""What maintainers run, as ``python -m spmvbench.publishing NAME``: measuring for publication, and writing pages.

NAME            writes
measure         the runs of a card that are published, in pieces: `make measure`
cocktail        the rates by which the format `cocktail` chooses, for configs/cocktail
sources         the source hashes of this checkout: configs/sources.csv
crate           the description of the published runs: results/published/ro-crate-metadata.json
advice          the model of the advice, its page and its figure
format_pages    the pages of docs/formats
claims, columns, conversions, irregular, linear_programs, reproduce, rivals, run_tables, speed, stand_ins, time_to_n,
vectors         tables of a page each, most from published rows: `make tables`
determinism     configs/determinism.csv from rows, and the table of docs/reproducible.md: `make tables`
flags           the lists of docs/operator.md of formats that multiply padding, or cannot be updated: `make tables`
testing         what tests take by folder: docs/testing.md
size            the counts of lines, findings and bytes, printed
"""

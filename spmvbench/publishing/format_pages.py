"""The pages of docs/formats: an index, and one page for each family with a table of its formats.

``python -m spmvbench.publishing format_pages docs/formats`` writes them, from the code alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from spmvbench import formats, paths
from spmvbench.formats import recent
from spmvbench.formats.descriptions import by_family, readings, summary
from spmvbench.formats.survey import Name
from spmvbench.publishing import in_page

# The text above the table on a family's page: what its formats have in common.
ABOUT = {
    "BCSR": """Block CSR stores small dense blocks instead of single entries. One column index serves a whole block,
and a block's part of x is loaded once for several rows. Zeros inside a block are stored and multiplied, so the family
pays off when entries cluster, as in matrices of finite elements with several unknowns per node.""",
    "BFS": """Formats for breadth-first search, the level of every vertex from one source. They store the pattern of a
graph and no values. See [operations](../operations.md#breadth-first-search) for what is timed and how it is
checked.""",
    "COO": """Coordinate formats store the row of every entry. Work is divided by entries and not by rows, so long
rows do no harm; partial sums of a row are combined by segmented scans or by atomic additions. Several members
compress the row indices.""",
    "CSC": """Compressed sparse columns. A column's x is loaded once and multiplied with all entries of the column.
The products belong to different rows, so y is updated by atomic additions or in a second pass.""",
    "CSR": """Compressed sparse rows: row pointers, column indices, values. Members differ in how they divide the work
among threads: a thread, part of a warp, a warp or a thread block for each row; bins of rows of similar length; or
equal shares of the entries. Some store more beside the three arrays, or compress or reorder them.""",
    "DIA": """Diagonal formats store whole diagonals, or pieces of them, without column indices. They need few bytes
per nonzero when entries lie on few diagonals. Otherwise padding exceeds the memory limit and the case is skipped;
hybrid members store the remaining entries in another format.""",
    "ELLPACK": """ELLPACK pads all rows to the same length and stores them column by column, so that neighbouring
threads read neighbouring addresses. Members limit the padding: slices of rows with a length of their own, rows sorted
by length, several threads per row. Some pack the indices into fewer bits.""",
    "Hybrid": """Hybrid formats divide a matrix into parts and store each part in the format that suits it: regular
rows in ELLPACK and the rest in COO, full diagonals in DIA, or a separate format for each tile.""",
    "JAD": """Jagged diagonals: rows are sorted by length; the first entries of all rows are stored, then the second
entries, and so on. There is no padding, or little. The result is in the order of the sorted rows, so y is
permuted.""",
    "Libraries": """Products that users would take in a format's place: each converts to a library's own matrix and
calls its product, as a [program](../programs.md). They are skipped where the package is not installed.""",
    "SpMSpV": """Formats for y = A x with a sparse x. Only columns that meet an entry of x contribute. See
[operations](../operations.md#sparse-x) for what is timed and how it is checked.""",
}

HEAD = """# Formats

{count} formats in {families} families run here. The survey by Filippone et al. (2017) lists {all} names in its Table 2;
{built} of them run here: {shares}. `spmvbench formats --survey` prints every name with the formats that run it.
Of {recent} exact storages and kernels for GPUs in the lists and papers since, {recent_built} run here;
`spmvbench formats --recent` prints them, and why the others do not. [Formats beside their authors'
programs](../results/rivals.md) has their times, and says what they are good for.
[Grades](grades.md) says what each paper adds, and what of it is our reading.

| Family | Formats | Keys |
| --- | ---: | --- |
{table}

## 2^31 entries and more

These formats store offsets in 64 bits if a matrix needs them: {wide}. All others skip a matrix of 2^31 entries or
more, with that reason.

## Naming formats

`run --formats` takes a list of keys, globs, families and names of the survey:

```sh
spmvbench run pde:16 --formats 'csr-*,HYB,CSR optimization [13]' --dry-run
spmvbench run pde:16 --formats 'ell[threads=2],hll' --dry-run    # parameters in brackets
spmvbench run pde:16 --formats 'all,-ehyb*' --dry-run            # a minus removes formats from the list
spmvbench formats csr5                                           # one format: arrays, parameters, kernels, paper
spmvbench formats --search 'segmented scan'
```

In the tables, "Survey" is the survey's name for the format, with the number of the reference if several formats share a
name. "Parameters" gives the defaults. [A new format](../new-format.md) shows how to add a format.
"""

GRADES = """# The names of the survey and their papers

What each paper adds, what runs it, and what of it is our reading, for the {names} names of the survey that have a
format; (names) are not in its Table 2. That table also has the base format with its issues, and
whether source code was available to the survey's authors.

- A: all of it, from the paper or the authors' code.
- B: all of it as far as the sources say. What they leave open is our reading, which the last column quotes.
- C: a part is missing, which the table names with the reason.

{count}.

`kernel=paper` is listed where a key has both kernels; `--formats 'all[kernel=paper]'` runs those of the authors.

| Name | Base format: issues | Code | Grade | Contribution | Runs as | Module | Missing | Our reading |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
{table}
"""

WRITTEN = "<!-- Written by `make docs` from the code. -->"


def page_of(family: str) -> str:
    """The file name of a family's page."""
    return f"{family.lower()}.md"


def cell(text: str) -> str:
    """Text as a cell of a table."""
    return text.replace("|", "\\|")


def grade(name: Name) -> str:
    """A, B or C, as GRADES explains."""
    if name.lacks:
        return "C"
    told = name.confidence in formats.survey.CONFIDENCE[:2]
    return "A" if told and not any(readings(formats.get(key)) for key in name.keys) else "B"


def grades() -> str:
    """The page of grades, made from names.csv and the docstrings of the formats."""
    named = [name for name in formats.survey.names() if name.keys]
    given = {name.title: grade(name) for name in named}
    lines = []
    for name in named:
        classes = [formats.get(key) for key in name.keys]
        keys = [f"`{cls.key}`" + (f" = `{cls.alias_of}`" if cls.alias_of else "") for cls in classes]
        kernels = {cls.key: cls.parameters().get("kernel") for cls in classes}
        keys += [f"`{key}[kernel=paper]`" for key, kernel in kernels.items() if kernel and "paper" in kernel.choices]
        modules = dict.fromkeys(cls.__module__.removeprefix("spmvbench.").replace(".", "/") + ".py" for cls in classes)
        read = dict.fromkeys(sentence for cls in classes for sentence in readings(cls))
        title = name.title if name.in_table2 else f"({name.title})"
        code = "yes" if name.available else "no" if name.in_table2 else ""
        runs = ", ".join(keys), ", ".join(f"`{m}`" for m in modules)
        cells = title, name.issues, code, given[name.title], name.contribution, *runs
        lines.append(f"| {' | '.join(map(cell, (*cells, name.lacks, ' '.join(read))))} |")
    counted = Counter(given.values())
    count = ", ".join(f"{counted[letter]} names have {letter}" for letter in sorted(counted))
    return GRADES.format(names=len(named), count=count, table="\n".join(lines))


def pages() -> dict[str, str]:
    """The Markdown text of every page by file name, made from this package's formats."""
    classes = by_family(formats.shipped())
    families = sorted({cls.family for cls in classes})
    lines = []
    made = {}
    for family in families:
        members = [cls for cls in classes if cls.family == family]
        keys = ", ".join(f"`{cls.key}`" for cls in members)
        lines.append(f"| [{family}]({page_of(family)}) | {len(members)} | {keys} |")
        rows = [("Key", "Survey", "Storage", "Parameters", "Reference"), ("---",) * 5]
        for cls in members:
            parameters = ", ".join(f"`{name}={p.default}`" for name, p in cls.parameters().items())
            name = "; lacks ".join(filter(None, (cls.survey_name, formats.survey.lacks(cls.key))))
            rows.append((f"`{cls.key}`", name, summary(cls), parameters, cls.reference))
        table = "\n".join(f"| {' | '.join(map(cell, row))} |" for row in rows)
        heading = f"# {family}: {len(members)} formats"
        made[page_of(family)] = "\n\n".join(filter(None, (WRITTEN, heading, ABOUT.get(family), table))) + "\n"
    built, every = formats.survey.count()
    recent_built, recent_every = recent.count()
    index = HEAD.format(
        count=len(classes),
        families=len(families),
        all=every,
        built=built,
        shares=formats.survey.shares(),
        recent=recent_every,
        recent_built=recent_built,
        table="\n".join(lines),
        wide=", ".join(f"`{cls.key}`" for cls in classes if cls.wide_offsets),
    )
    return {"index.md": f"{WRITTEN}\n\n{index}", "grades.md": f"{WRITTEN}\n\n{grades()}"} | made


def main(given: Sequence[str] | None = None) -> None:
    """Write all pages into a folder."""
    words = in_page.parser(__name__)
    words.add_argument("folder", type=Path, help="docs/formats")
    folder = words.parse_args(given).folder
    for page, text in pages().items():
        with paths.written_whole(folder / page) as file:
            file.write(text.encode())

"""The names of the years since the survey, compared with the registered formats."""

from __future__ import annotations

from spmvbench import formats
from spmvbench.formats import recent, survey


def test_every_exact_storage_and_kernel_for_gpus_runs_or_says_why_not():
    assert recent.count()[1] == 104
    for name in recent.names():
        if name.counts:
            assert bool(name.keys) or bool(name.why_not), name.name
        assert not (name.reason and (name.keys or name.to_come)), name.name
        assert name.kind in (*recent.COUNTED, "autotuner", "mixed precision", "reordering"), name.name
    titles = [name.name for name in recent.names()]
    assert len(set(titles)) == len(titles) == 185


def test_every_name_that_runs_says_what_was_read_of_it():
    for name in recent.names():
        assert bool(name.confidence) == bool(name.keys), name.name
        assert name.confidence in ("", *survey.CONFIDENCE), name.name
        for cls in map(formats.get, name.keys):
            # A format of this project may be listed with the format that it is after.
            words = " ".join((cls.__doc__ or "").split())
            if "the abstract was read" in words or "the abstracts were read" in words:
                assert name.confidence not in ("authors' code", "paper"), cls.key


def test_every_format_named_after_a_recent_paper_is_listed():
    listed = {key for name in recent.names() for key in name.keys}
    for key in ("sell-petsc", "csr-lrb", "csr-amf", "csr-overlap", "sell-dict", "sell-pack", "cusparse-coo-alg2"):
        assert key in listed

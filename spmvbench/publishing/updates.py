"""The table of new values in the same pattern: what they take in products of CSR, and when they pay.

``python -m spmvbench.publishing.updates RUN`` prints it of a run with ``--update``.
"""

from __future__ import annotations

from spmvbench.publishing import in_page
from spmvbench.publishing.small import of_run

main = in_page.command("updates", __doc__, lambda given: of_run(given.run, "updates"), in_page.RUN)

if __name__ == "__main__":
    main()

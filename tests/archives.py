"""Archives as the collection has them, for tests of downloads and readers."""

import gzip
import io
import tarfile


def packed(*members):
    """A gzipped tar, the same bytes each time. members: content (bytes) after the name or tarfile.TarInfo of each."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for given, content in members:
            info = given if isinstance(given, tarfile.TarInfo) else tarfile.TarInfo(given)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(file.getvalue(), mtime=0)

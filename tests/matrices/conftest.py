import pytest


@pytest.fixture
def write(tmp_path):
    """Makes a file of this name and content in the test's folder."""

    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write

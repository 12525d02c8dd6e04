"""The image, built once for all tests that run it."""

import pytest

from tests.support.published.images import built


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    return built(tmp_path_factory.mktemp("image"))

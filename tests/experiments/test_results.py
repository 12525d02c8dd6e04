"""Every table of results is named in the texts."""

import re

from tests.support.published.claims import RESULTS, TEXT


def test_every_table_is_named_and_every_curve_is_drawn():
    """A name, or what it begins with: `dola-batches-ours` stands under `dola-batches`."""
    named = set(re.findall(r"[`/(]([\w-]+)(?:\.png|\.csv)?[`)]", TEXT))
    for table in RESULTS.glob("*.csv"):
        name = table.stem
        assert any(name == one or name.startswith(f"{one}-") for one in named), name
        if table.read_text().startswith("curve,"):
            assert table.with_suffix(".png").exists(), name

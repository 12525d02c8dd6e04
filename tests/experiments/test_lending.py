"""The loans of the example are made up, and made again byte for byte."""

import gzip

from experiments import lending


def test_the_files_are_what_the_script_makes():
    for name, count in lending.SIZES.items():
        text = gzip.decompress((lending.FOLDER / f"{name}.csv.gz").read_bytes()).decode()
        assert text == lending.loans(name, count)
        assert len(text.splitlines()) == count + 1

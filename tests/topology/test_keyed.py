import hashlib

import numpy as np

from topology.keyed import generator


def test_the_same_keys_give_the_same_stream_in_any_process():
    # Written down once: another numpy or another process must give it again.
    assert generator("noise", 1, "a").integers(0, 10**6, 3).tolist() == [231059, 188778, 767106]


def test_different_keys_give_different_streams():
    keys = [("a", 1), ("a", "1"), ("a", 2), ("b", 1), ("a",), ("a", 1, 1), ("a, 1",)]
    assert len({generator(*key).integers(0, 2**63) for key in keys}) == len(keys)


def test_the_stream_is_that_of_the_key_alone():
    digest = hashlib.sha256(b"('noise', 1, 'a')").digest()
    philox = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
    keyed = generator("noise", 1, "a")
    assert keyed.laplace(size=99).tobytes() == philox.laplace(size=99).tobytes()
    assert keyed.permutation(99).tobytes() == philox.permutation(99).tobytes()

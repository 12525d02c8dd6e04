from topology.keyed import generator


def test_the_same_keys_give_the_same_stream_in_any_process():
    # Written down once: another numpy or another process must give it again.
    assert generator("noise", 1, "a").integers(0, 10**6, 3).tolist() == [231059, 188778, 767106]


def test_different_keys_give_different_streams():
    keys = [("a", 1), ("a", "1"), ("a", 2), ("b", 1), ("a",), ("a", 1, 1), ("a, 1",)]
    assert len({generator(*key).integers(0, 2**63) for key in keys}) == len(keys)

"""Which epsilons a mechanism takes: below them noise drowns all, above them it hides nothing."""

from fractions import Fraction

from nodes.decimals import as_text

_LEAST, _LARGEST = Fraction(1, 10**8), Fraction(10**5)


def in_range(epsilon: Fraction) -> None:
    """Raise ValueError unless 1e-8 < epsilon <= 1e5, where every formula here is safe in floats."""
    if not _LEAST < epsilon <= _LARGEST:
        allowed = f"above {float(_LEAST):g} and at most {as_text(_LARGEST)}"
        raise ValueError(f"epsilon is {as_text(epsilon)}: must be {allowed}")

"""What `plan` says of the mechanisms."""

import pytest

PRIVACY = "{mechanism: laplace, noise: simulated, epsilon: 1, gradient_bound: 0.5}"


@pytest.fixture
def told(call, mesh):
    """Return what `plan` says of a mesh with this privacy, by name of the fact."""

    def told(privacy: str, *changes: tuple[str, str]) -> dict[str, str]:
        text = mesh.read_text()
        line = next(line for line in text.splitlines() if line.strip().startswith("privacy:"))
        text = text.replace(line, f"{line[: line.index('privacy:')]}privacy: {privacy}")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        mesh.write_text(text)
        outcome = call("plan", mesh)
        assert (outcome.code, outcome.err) == (0, "")
        return dict(line.split(": ", 1) for line in reversed(outcome.out.splitlines()) if ": " in line)

    return told


def test_gaussian(told):
    found = told("{mechanism: gaussian, epsilon: 1, delta: 1e-6, gradient_bound: 0.5}")
    assert "gaussian on the gradient, analytic calibration; each" in found["mechanism"]
    assert "clipped to 0.5 in l2" in found["mechanism"]
    assert "exact noise of standard deviation 4.225 on each coordinate" in found["mechanism"]
    assert "gaussian on the gradient, epsilon 1, delta 1e-06 a record" in found["mesh"]
    assert "with epsilon = 1 (delta = 1e-06), for the whole stream" in found["guarantee"]


def test_l2_sphere(told):
    found = told("{mechanism: l2-sphere, epsilon: 1, gradient_bound: 0.5}")
    assert "exact randomness of root mean square 1.202 on each coordinate" in found["mechanism"]
    assert "less noise" not in found["mechanism"]
    assert "with epsilon = 1 (pure)" in found["guarantee"]


@pytest.mark.parametrize(("size", "said"), [(2, False), (3, True)])
def test_where_laplace_has_less_noise_is_said(told, size, said):
    """8 d^2/(epsilon B)^2 = 2.77 at d = 2, epsilon = 1."""
    found = told("{mechanism: l2-sphere, epsilon: 1, gradient_bound: 0.5}", ("size: 1", f"size: {size}"))
    words = "laplace with the same L2 bound would have less noise (slots of more than 3 records)"
    assert (words in found["mechanism"]) == said
    assert ("mechanism laplace, gradient_bound 0.707107 in l1" in found["mechanism"]) == said

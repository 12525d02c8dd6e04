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


def test_a_node_with_longer_noise_has_a_shorter_clip_and_counts_less(told):
    found = told(PRIVACY, ("nodes: [a, b, c]", "nodes: {a: {}, b: {epsilon: 0.02}, c: {}}"))
    less = "b: 0.02 of the mesh's, so that the noise is no longer than by the mesh's privacy"
    assert found["clip"].strip() == f"{less}: the records count less (gradient_bound of the node changes it)"
    assert "gradients of b are cut shorter than others', and regret counts all alike" in found["not met"]
    assert "warning" not in found


def test_where_a_nodes_noise_is_most_of_all_plan_and_check_say_what_to_do(told, call, mesh):
    own = "nodes: {a: {}, b: {epsilon: 0.02, gradient_bound: 0.5}, c: {}}"
    found = told(PRIVACY, ("nodes: [a, b, c]", own))
    assert found["warning"].strip() == (
        "mesh.nodes.b: the noise here is at least 50 times as long as that of the others, and reaches every "
        "node: gradient_bound 0.01 makes it as long as theirs; the records here then count less"
    )
    assert f"Warning: {found['warning'].strip()}" in call("check", mesh).out
    assert "clip" not in found

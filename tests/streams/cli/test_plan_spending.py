"""What `plan` says of budgets at a delta, and of schedules."""

import pytest


@pytest.fixture
def said(call, mesh):
    """What `plan` says where `privacy` stands in place of epsilon, in one line."""

    def plan(privacy, *options):
        text = mesh.read_text()
        assert "epsilon: 1," in text
        mesh.write_text(text.replace("epsilon: 1,", f"{privacy},"))
        outcome = call("plan", mesh, *options)
        assert (outcome.code, outcome.err) == (0, "")
        return " ".join(outcome.out.split())

    return plan


def test_a_budget_at_a_delta_is_said_with_its_composition_and_its_last_round(said):
    out = said("epsilon: 0.1, budget: {epsilon: 5, delta: 1e-6}", "--rounds", 1000)
    assert "4.9892 of a node's whole stream after 1,000 rounds" in out
    assert (
        "(stream level, tight composition of Laplace noise (privacy loss distributions) at delta = 1e-06)"
        in out
    )
    assert "up to round 111, when the budget of 5 at delta 1e-06 is spent; then it relays" in out


def test_a_total_is_said_with_its_rounds(said):
    out = said("epsilon: {total: 10, rounds: 25, schedule: growing}")
    assert "epsilon 10 of a stream of 25 rounds, growing" in out
    assert "9.99999 of a node's whole stream after 40 rounds (stream level, sum of the schedule)" in out
    assert "up to round 25, when the total of 10 is spent; then it relays" in out
    assert "in round 1, " in out  # the noise shrinks


def test_a_uniform_total_is_an_epsilon_like_any_other(said):
    out = said("epsilon: {total: 10, rounds: 100}, budget: 2")
    assert "0.1 of one record" in out
    assert "up to round 20, when the budget of 2 is spent" in out

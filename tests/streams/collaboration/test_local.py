"""A whole collaboration in one process: what it learns, what it spends, and that it goes on where it was."""

from contextlib import ExitStack
from shutil import copytree

import numpy as np
import pytest

from nodes.collaboration.messages import CollaborationNotice
from nodes.collaboration.steps import combined, weights
from nodes.losses.evaluation import slot_gradients
from nodes.privacy.private import Private
from streams.collaboration.journals import OwnerJournal
from streams.collaboration.local import (
    CollaborationJournals,
    LocalCollaboration,
    StateJournals,
    run_collaboration,
)
from streams.collaboration.passes import chunks, passes
from streams.mesh.errors import MeshFileError, UsageError
from streams.mesh.file import load_any
from streams.mesh.shipped import example_mesh
from streams.records.sources import held_out
from streams.state.folder import JournalError
from tests.support.collaborations.folders import write, written


def everything(record):
    answers = [(one.owner, one.weight, one.response.tobytes()) for one in record.answers]
    return record.number, record.parameters.tobytes(), record.average.tobytes(), answers


def test_a_run_is_the_papers_algorithm_on_the_owners_private_answers(tmp_path):
    file = written(tmp_path)
    journals = CollaborationJournals.in_memory(file)
    found = LocalCollaboration(file, journals).run()
    whole, again = file.resolved, written(tmp_path).resolved
    stage, sizes = whole.step.start(), np.array([6, 4, 5])
    for _ in range(file.mesh.queries):
        answers = []
        for name in ("a", "b", "c"):
            own = passes(file, name)
            (chunk,) = chunks(own._values(), own._decoder)
            gradients = slot_gradients(whole.loss, stage.parameters, chunk)
            made = again.mechanism(name)
            answers.append(made.answer(stage.query, made.add(made.begin(), Private(gradients))))
        shares = weights(sizes, np.ones(3, np.bool_))
        stage = whole.step.advance(stage, combined(np.stack(answers), shares))
    assert found.number == file.mesh.queries + 1
    assert found.parameters.tobytes() == stage.parameters.tobytes()
    assert found.average.tobytes() == stage.average.tobytes()
    assert [len(owner.records) for owner in journals.owners.values()] == [5, 5, 5]


def test_by_noise_each_answer_weighs_one_over_its_variance_in_every_step_of_a_run(tmp_path):
    file = written(tmp_path, more_mesh="  weights: noise\n")
    journals = CollaborationJournals.in_memory(file)
    LocalCollaboration(file, journals).run()
    records, mesh = journals.learner.records(), file.mesh
    laplace = {
        name: 2 * (2 * mesh.queries / (n * epsilon)) ** 2 for name, n, epsilon in (("a", 6, 8), ("c", 5, 7))
    }
    noise = laplace | {"b": file.resolved.mechanism("b").noise_scale ** 2}
    counts = {name: 1 / (3 * noise[name] + 1 / n) for name, n in (("a", 6), ("b", 4), ("c", 5))}
    assert counts["a"] / sum(counts.values()) > 0.45
    theta, average = [0.0] * 3, [0.0] * 3
    for k, record in enumerate(records[1:], 1):
        gradient = [0.1 * one for one in theta]
        for name, count in counts.items():
            (owner,) = [one for one in journals.owners[name].records if one.query == k]
            for i in range(3):
                gradient[i] += count / sum(counts.values()) * float(owner.response[i])
        shift = 1 / mesh.queries**0.5
        average = [
            (k - 1) / (shift + k) * old + (shift + 1) / (shift + k) * now
            for old, now in zip(average, theta, strict=True)
        ]
        theta = [one - 0.5 / k**0.5 * slope for one, slope in zip(theta, gradient, strict=True)]
        length = sum(one * one for one in theta) ** 0.5
        theta = [one * min(1.0, 5 / length) for one in theta]
        np.testing.assert_allclose(record.parameters, theta, rtol=1e-6)  # the grid rounds noise up
        np.testing.assert_allclose(record.average, average, rtol=1e-6)
    assert len(records) == mesh.queries + 1
    by_records = run_collaboration(written(tmp_path))
    assert by_records.parameters.tobytes() != records[-1].parameters.tobytes()


def test_seeded_runs_are_equal_and_exact_ones_differ(tmp_path):
    seeded = [everything(run_collaboration(written(tmp_path))) for _ in range(2)]
    assert seeded[0] == seeded[1]
    exact = [everything(run_collaboration(written(tmp_path, noise="exact"))) for _ in range(2)]
    assert exact[0] != exact[1]


def run(file, folder, queries=None):
    """Ask up to so many queries with journals in the folder; return the last record and what was said."""
    with ExitStack() as closing:
        journals = StateJournals(file, folder, closing)
        local = LocalCollaboration(file, journals.opened)
        journals.begin()
        said = {name: reuse.sentence() for name, reuse in journals.reuses().items()}
        while (queries is None or local.answered < queries) and local.advance():
            pass
        spent = {name: owner.machine.charged for name, owner in local.owners.items()}
        return local.record, said, spent, local.notices


def test_with_a_state_folder_it_goes_on_where_it_was(tmp_path):
    file, folder = written(tmp_path), tmp_path / "state"
    assert run(file, folder, 2)[0].number == 3
    record, _, spent, _ = run(written(tmp_path), folder)
    assert everything(record) == everything(run_collaboration(written(tmp_path)))
    assert spent == {"a": 5, "b": 5, "c": 5}
    again, _, spent, notices = run(written(tmp_path), folder)
    assert everything(again) == everything(record)
    assert spent == {"a": 5, "b": 5, "c": 5}
    assert not notices


def test_owners_that_answered_before_the_learner_lost_its_journal_give_the_same_bytes(tmp_path):
    folder = tmp_path / "state"
    record, *_ = run(written(tmp_path), folder)
    for file in folder.glob("l.journal*"):
        file.unlink()
    again, _, spent, notices = run(written(tmp_path), folder)
    assert everything(again) == everything(record)
    assert spent == {"a": 5, "b": 5, "c": 5}
    assert notices == {CollaborationNotice.DUPLICATE: 15}


@pytest.mark.parametrize("answered", [0, 2])
def test_a_copied_folder_is_refused_and_the_original_goes_on(tmp_path, answered):
    folder, copy = tmp_path / "state", tmp_path / "copy"
    run(written(tmp_path), folder, answered)
    copytree(folder, copy)
    run(written(tmp_path), folder)
    with pytest.raises(
        UsageError, match=r"a\.journal: is a copy, .*: continue with that, or begin a new run"
    ):
        run(written(tmp_path), copy)
    assert kept(copy) == {"a": answered, "b": answered, "c": answered}
    assert run(written(tmp_path), folder)[2] == {"a": 5, "b": 5, "c": 5}
    assert run(written(tmp_path, run="second"), copy)[2] == {"a": 5, "b": 5, "c": 5}


def test_an_older_journal_in_the_place_of_the_owners_is_refused(tmp_path):
    folder = tmp_path / "state"
    run(written(tmp_path), folder, 2)
    older = (folder / "b.journal").read_bytes()
    run(written(tmp_path), folder, 4)
    newest = (folder / "b.journal").read_bytes()
    (folder / "b.journal").write_bytes(older)
    words = r"b\.journal: 4 queries were answered, and it knows of 2: it must be the newest one"
    with pytest.raises(JournalError, match=words):
        run(written(tmp_path), folder)
    assert kept(folder) == {"a": 4, "b": 2, "c": 4}
    (folder / "b.journal").write_bytes(newest)
    assert run(written(tmp_path), folder)[2] == {"a": 5, "b": 5, "c": 5}


@pytest.mark.parametrize("spends", [True, False])
def test_an_owners_missing_journal_is_refused_and_nobody_is_charged(tmp_path, spends):
    folder = tmp_path / "state"
    run(written(tmp_path), folder, 2)
    (folder / "b.journal").unlink()
    if not spends:  # as after a kill before the first line
        (folder / "b.spends").unlink()
    error = JournalError if spends else UsageError
    words = "b.journal: 2 queries" if spends else "owner b: its journal ends"
    with pytest.raises(error, match=words):
        run(written(tmp_path), folder)
    assert kept(folder) == {"a": 2, "b": 0, "c": 2}


def test_an_owner_that_knows_another_query_ends_the_run_and_nobody_is_charged(tmp_path):
    file = written(tmp_path)
    journals = CollaborationJournals.in_memory(file)
    LocalCollaboration(file, journals).advance()
    journals.learner.kept.clear()
    journals.owners["a"].kept.clear()
    journals.owners["b"].kept[0] = journals.owners["b"].kept[0]._replace(asked=bytes(16))
    local = LocalCollaboration(written(tmp_path), journals)
    with pytest.raises(UsageError, match="owner b: does not answer query 1"):
        local.run()
    assert journals.owners["a"].records == ()


def kept(folder):
    """The number of answers in each owner's journal."""
    found = {}
    for name in ("a", "b", "c"):
        with OwnerJournal.read(folder / f"{name}.journal") as journal:
            found[name] = len(journal.records)
    return found


def test_a_new_run_on_the_same_set_says_what_was_spent_before(tmp_path):
    folder = tmp_path / "state"
    _, said, _, _ = run(written(tmp_path), folder)
    assert not any(said.values())
    record, said, spent, _ = run(written(tmp_path, run="second"), folder)
    assert record.number == 6
    assert spent == {"a": 5, "b": 5, "c": 5}
    assert all("nothing is known to be protected" in sentence for sentence in said.values())  # simulated
    run(written(tmp_path, noise="exact"), tmp_path / "other")
    _, said, _, _ = run(written(tmp_path, run="second", noise="exact"), tmp_path / "other")
    assert "Run first learnt from some of the same records" in said["a"]
    assert "epsilon = 16 (pure)" in said["a"]


def test_a_changed_set_is_refused_and_nothing_more_is_spent(tmp_path):
    folder = tmp_path / "state"
    run(written(tmp_path), folder, 2)
    changed = written(tmp_path)
    path = tmp_path / "b.csv"
    path.write_text(path.read_text().replace("0.5", "0.55", 1))
    with pytest.raises(UsageError, match=r"owner b: the set has changed \(it ends at"):
        run(changed, folder)
    path.write_text(path.read_text().replace("0.55", "0.5", 1))
    assert run(written(tmp_path), folder)[2] == {"a": 5, "b": 5, "c": 5}


def test_every_owners_mistake_is_told_at_once_and_nothing_is_spent(tmp_path):
    file, folder = written(tmp_path), tmp_path / "state"
    (tmp_path / "a.csv").write_text("x,y,z\n")
    (tmp_path / "c.csv").write_text((tmp_path / "c.csv").read_text() + "1,1,nan\n")
    with pytest.raises(MeshFileError) as error:
        run(file, folder)
    first, second = error.value.lines
    assert "mesh.owners.a.records: 6: the set holds no record" in first
    assert "owners.c.source: 1 of 6 records cannot be read (z: not finite (1))" in second
    assert run(written(tmp_path), folder, 0)[2] == {"a": 0, "b": 0, "c": 0}


def test_no_record_is_in_a_journal(tmp_path):
    folder = tmp_path / "state"
    file = written(tmp_path, canary=0.123456789)
    run(file, folder)
    held = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    assert b"0.123456789" not in held
    assert np.float64(0.123456789).tobytes() not in held


def test_the_example_learns_the_rate_of_a_loan():
    file = load_any(example_mesh("lending.yaml"))
    local = LocalCollaboration(file)
    while local.answered < 20 and local.advance():
        pass
    features, labels = held_out(file)
    error = np.sqrt(((features @ local.record.average - labels) ** 2).mean())
    assert error < 0.9 * labels.std() + 0.004
    assert all(owner.machine.epsilon_spent < 2 for owner in local.owners.values())


def test_all_owners_learn_that_the_run_is_over(tmp_path):
    local = LocalCollaboration(written(tmp_path))
    assert not any(owner.machine.halted for owner in local.owners.values())
    local.run()
    assert all(owner.machine.halted for owner in local.owners.values())


def test_all_owners_learn_that_a_run_whose_theta_diverges_is_over_and_again_at_a_restart(tmp_path):
    path = write(tmp_path)
    text = path.read_text().replace("  constraint: {l2-ball: 5}\n", "")
    path.write_text(text.replace("{name: averaged, step: 0.5}", "{name: strongly-convex, rho: 1.0e+200}"))
    file = load_any(path)
    journals, ended = CollaborationJournals.in_memory(file), []
    for _ in range(2):
        local = LocalCollaboration(file, journals)
        with pytest.raises(UsageError, match="theta diverges at query"):
            local.run()
        assert all(owner.machine.halted for owner in local.owners.values())
        ended.append([owner.machine.charged for owner in local.owners.values()])
    assert ended[0] == ended[1]

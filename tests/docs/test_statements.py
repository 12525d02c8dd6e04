"""What the pages say about the code is true."""

import re
import subprocess
import sys

import yaml

from streams.mesh.file import load
from streams.mesh.settings.brokers import CommonBrokers
from streams.status.account import PrivacyAccount
from tests.kafka.test_forbidden import FORBIDDEN
from tests.support.meshes.files import changed, written
from tests.support.published.pages import DOCS, PAGES, README, ROOT, page

MESH_FILE, KAFKA, PRIVACY = (
    page(f"docs/{name}.md") for name in ("howto/write-a-mesh-file", "howto/kafka", "explanation/privacy")
)


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def python_block(path, word):
    (code,) = [code for code in blocks(page(path), "python") if word in code]
    return code


def test_the_python_example_runs():
    code = python_block("docs/howto/python.md", "tracking.yaml")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(
        load(ROOT / "deploy/meshes/tracking.yaml").mesh.nodes
    )
    assert all(line.endswith(" 100") for line in lines)  # charged rounds
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_the_python_example_of_a_collaboration_runs(tmp_path):
    code = "from pathlib import Path\nimport mirrormesh\n" + python_block(
        "docs/howto/python.md", "lending.yaml"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *_, a, b, c = done.stdout.splitlines()
    assert [line.split()[:2] for line in (a, b, c)] == [[f"bank-{one}", "20"] for one in "abc"]
    assert (tmp_path / "rates.json").exists()


def test_the_own_loss_shown_is_right_and_learns(tmp_path):
    code = python_block("docs/howto/own-loss.md", "Pinball")
    assert len([line for line in code.splitlines() if line]) == 10
    (tmp_path / "pinball.py").write_text(code)
    rows = "".join(f"{k % 7 / 7},{(k * k) % 11 / 11}\n" for k in range(600))
    (tmp_path / "rows.csv").write_text("x,y\n" + rows)
    schema = {"features": {"x": "number"}, "intercept": True, "label": {"column": "y"}}
    source = {"kind": "csv", "path": "rows.csv", "schema": schema}
    tree = changed(
        nodes=["a", "b"], loss={"own": "pinball:Pinball"}, rounds=200, slots={"by": "count", "size": 3}
    )
    tree["mesh"]["privacy"] = {"mechanism": "none", "gradient_bound": 2}
    tree |= {"nodes": {name: {"source": source} for name in "ab"}, "held_out": source}
    said = []
    (allowing,) = re.findall(
        r"mirrormesh run mesh.yaml (--code \S+)", (ROOT / "docs/howto/own-loss.md").read_text()
    )
    allowing = allowing.split()
    for command in ("check", "run"):
        main = f"from streams.cli import main; main(['{command}', '{written(tmp_path, tree)}', *{allowing}])"
        environment = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
        arguments = [sys.executable, "-c", main]
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("[]\n")
        said.append(done.stdout)
    (loss,) = re.findall(
        r"Held-out, 600 records, .* last decisions, which predict takes: mean loss ([0-9.]+)\.", said[1]
    )
    labels = [(k * k) % 11 / 11 for k in range(600)]
    best = min(sum(max(0.9 * (y - q), 0.1 * (q - y)) for y in labels) / 600 for q in set(labels))
    assert float(loss) < 1.1 * best


def test_the_mesh_file_shown_is_the_one_that_ships():
    (shown,), (brokers,) = blocks(MESH_FILE, "yaml"), blocks(KAFKA, "yaml")
    ships = yaml.safe_load((ROOT / "deploy/meshes/tracking.yaml").read_text())["mesh"]
    tree = yaml.safe_load(shown)["mesh"]
    assert tree == {key: ships[key] for key in tree}
    CommonBrokers.model_validate(
        yaml.safe_load(brokers)["brokers"], context={"environment": {"MESH_PASSWORD": "secret"}}
    )


def test_the_sentence_shown_is_the_one_that_the_mesh_file_shown_would_get(tmp_path):
    (shown,) = (yaml.safe_load(block) for block in blocks(MESH_FILE, "yaml"))
    (brokers,) = (yaml.safe_load(block) for block in blocks(KAFKA, "yaml"))
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump({"mesh": shown["mesh"]} | brokers))
    sentence = (
        load(tmp_path / "mesh.yaml", {"MESH_PASSWORD": "secret"})
        .resolved.node("east")
        .guarantee.sentence("east")
    )
    quoted = re.findall(r"(?:^> .*\n)+", PRIVACY, re.MULTILINE)
    assert sentence in [" ".join(quote.replace("> ", "").split()) for quote in quoted]


def test_what_budget_tells_programs_is_listed():
    text = page("docs/howto/operate.md")
    (listed,) = re.findall(r"`--json` gives one object: (.*?)\n\n", text, re.DOTALL)
    assert set(PrivacyAccount._fields) <= set(re.findall(r"`(\w+)`", listed))


def test_the_threat_model_names_tests_that_are_there_or_says_that_it_argues():
    text = page("docs/explanation/threat-model.md")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    attacks, signed = (k for k, row in enumerate(rows) if row[0] == "| attack")
    assert (attacks, signed, len(rows)) == (14, 28, 42)
    assert all(len(row) == 4 for row in rows[signed:])
    for who, _, _, cannot in rows[1:attacks]:
        assert cannot.strip(" |") == "" or re.search(r"\((tested|argued)\b", cannot), who
    tried = {" ".join(deed) for _, *deed in FORBIDDEN}
    for attack, _, ended, tested in rows[attacks + 1 : signed]:
        deeds = re.findall(r"`([^`]+)`", tested)
        assert all(deed in {each.strip() for each in tried} for deed in deeds), attack
        assert deeds or "(tested: " in ended, attack
    named = re.findall(r"`((?:tests/\S+?/)?test_\w+\.py)`", text)
    assert len(named) > 15
    for name in named:
        there = [ROOT / name] if "/" in name else (ROOT / "tests").rglob(name)
        assert any(path.exists() for path in there), name
    assert not re.search(r"\btests/(?!\S*\.py`)", text)  # a folder shows nothing


def test_every_folder_and_file_that_is_named_is_there():
    tops = "topology|nodes|streams|deploy|grafana|experiments|tests"
    text = "\n".join(one.read_text() for one in PAGES)
    named = set(re.findall(rf"(?<![\w/.-])(?:{tops})/[\w./-]*(?:/|\.\w+)", text))
    assert len(named) > 40
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_readme_is_short_and_names_the_commands_that_begin():
    text = README.read_text()
    assert len(text.splitlines()) <= 200
    first, then = blocks(text, "sh")
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
    ours = [line.split()[1] for line in then.splitlines() if line.startswith("mirrormesh")]
    assert ours == ["init", "check", "plan", "run", "up"]


def test_the_index_has_every_page():
    listed = page("docs/README.md")
    names = [str(one.relative_to(ROOT / "docs")) for one in DOCS if one.name != "README.md"]
    assert [name for name in names if f"({name})" not in listed] == []

"""The scheduler's rules are numbered, and each number stands beside a branch that keeps the rule."""

import io
import re
import tokenize
from pathlib import Path

from topology import planning, roster, scheduler

MODULES = (scheduler, planning, roster)


def rules(text):
    """The numbers of the rules that a docstring lists, in order."""
    return [int(number) for number in re.findall(r"^ ?(\d+)\. ", text, re.MULTILINE)]


def named(source):
    """The numbers that comments beside code name: `# rule 7`, `# rules 1 and 2`."""
    numbers = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and (
            rule := re.match(r"# rules? (\d+)(?: and (\d+))?\b", token.string)
        ):
            numbers += [int(number) for number in rule.groups() if number]
    return numbers


def test_each_rule_is_named_beside_a_branch_and_no_other_number_is():
    numbers = rules(scheduler.__doc__)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 9
    beside = {number for module in MODULES for number in named(Path(module.__file__).read_text())}
    assert beside == set(numbers)


def test_prose_and_other_comments_name_no_rule():
    source = '"""# rule 1"""\nx = 1  # rule 2\ny = 2  # as rule 3\n# rules 4 and 5: why\n'
    assert named(source) == [2, 4, 5]
    assert rules("Rules\n 1. a\n    2. b\n10. c") == [1, 10]

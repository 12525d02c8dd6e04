"""Offsets for outside tools: committed when they are new, and again before a broker forgets them."""

from streams.live.data.streams import KEPT, Commits
from streams.mesh.settings.brokers import BrokerSettings


def test_offsets_are_committed_when_they_are_new_and_again_after_a_while():
    now = 0.0
    commits = Commits(BrokerSettings(servers="nowhere:1"), {"data.a": "m.r.a"}, lambda: now)
    assert commits.is_new("data.a", {"data.a": {0: 0}})
    assert commits.is_new("data.a", {"data.a": {0: 0}})  # the broker has not answered
    commits.committed("data.a", {"data.a": {0: 0}})
    assert not commits.is_new("data.a", {"data.a": {0: 0}})
    assert commits.is_new("data.a", {"data.a": {0: 1}})
    now = KEPT
    assert commits.is_new("data.a", {"data.a": {0: 0}})

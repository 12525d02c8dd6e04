from streams.tools.up.mesh import Silence


def test_a_node_that_is_not_heard_is_silent_and_not_running():
    silence = Silence()
    assert silence.state(100.0, None, 103.0) == "starting"
    assert silence.state(100.0, 99.0, 103.0) == "starting"  # that was its last life
    assert silence.state(100.0, 102.0, 103.0) == "running"
    assert silence.state(100.0, 102.0, 121.0) == "silent for 19 s"


def test_while_the_broker_is_away_nobody_can_be_heard():
    silence = Silence()
    silence.broker_away(120.0)
    assert silence.state(100.0, 102.0, 121.0) == "running"
    assert silence.state(100.0, 102.0, 127.0) == "silent for 7 s"

from streams.codec import Reason
from streams.metrics.scheduler_metrics import SchedulerMetrics
from tests.support.machines import plan
from tests.support.metrics import shown
from topology.scheduler_events import Refusal


def test_a_scheduler_shows_its_plans_and_who_is_live():
    metrics = SchedulerMetrics("tracking", connected=lambda: False)

    def now(name, *labels):
        return shown(metrics.shared)[f"mirrormesh_{name}", *labels]

    assert now("plan_round") == now("plan_members") == now("plan_lead_rounds") == 0
    metrics.published()
    metrics.planned(plan(7))
    assert now("plan_lead_rounds") == 0  # nobody is there to be ahead of
    metrics.heard(live=2, slowest=3)
    metrics.refused(Reason.DIGEST)
    metrics.refused(Refusal.REPLACED)
    metrics.refused(Reason.RUN)
    metrics.refused(Refusal.RUN)
    assert (now("plans_published_total"), now("plan_round"), now("plan_members")) == (1, 7, 3)
    assert (now("live_nodes"), now("plan_lead_rounds"), now("broker_connected")) == (2, 4, 0)
    refused = [now("messages_refused_total", reason) for reason in ("digest", "replaced", "run", "place")]
    assert refused == [1, 1, 2, 0]

"""Series of a mesh that is well, and for each alert what is otherwise where it fires."""

NODE = 'mesh="m",node="a"'
STREAM = f'{NODE},adjacency="stream"'
SCHEDULER = 'mesh="m",instance="s"'
COMMITS = f"mirrormesh_journal_commit_seconds_bucket{{{NODE}"
WORKING = {  # a mesh that is well, 40 samples of 15 s
    'mirrormesh_build_info{mesh="m",node="a",version="1"}': "1x39",
    'up{job="mirrormesh",instance="a:9100"}': "1x39",
    'mirrormesh_run_over{mesh="m",job="mirrormesh",instance="a:9100"}': "0x39",
    'mirrormesh_rounds_total{mesh="m",node="a"}': "0+60x39",
    'mirrormesh_rounds_total{mesh="m",node="b"}': "0+60x39",
    'mirrormesh_round{mesh="m",node="a"}': "0+60x39",
    'mirrormesh_round{mesh="m",node="b"}': "0+60x39",
    f"mirrormesh_live_nodes{{{SCHEDULER}}}": "2x39",
    f"mirrormesh_plan_lead_rounds{{{SCHEDULER}}}": "32x39",
    f"mirrormesh_broker_connected{{{SCHEDULER}}}": "1x39",
    f'mirrormesh_node_last_seen_timestamp_seconds{{{SCHEDULER},node="a"}}': "0+15x39",
    f'mirrormesh_node_last_seen_timestamp_seconds{{{SCHEDULER},node="b"}}': "0+15x39",
    f'mirrormesh_node_starts_total{{{SCHEDULER},node="a"}}': "0x19 1x19",
    f'mirrormesh_nodes_left_out_total{{{SCHEDULER},node="a"}}': "0x39",
    f'mirrormesh_nodes_left_out_total{{{SCHEDULER},node="b"}}': "0x19 1x19",
    f"mirrormesh_file_generation{{{NODE}}}": "0x19 1x19",
    f"mirrormesh_plan_generation{{{NODE}}}": "0x9 1x29",
    f"mirrormesh_file_generation{{{SCHEDULER}}}": "1x39",
    f"mirrormesh_plan_generation{{{SCHEDULER}}}": "0x9 1x29",
    f"mirrormesh_broker_connected{{{NODE}}}": "1x39",
    f"mirrormesh_certificate_end_timestamp_seconds{{{NODE}}}": f"{15 * 86_400}x39",
    f"mirrormesh_certificate_end_timestamp_seconds{{{SCHEDULER}}}": f"{10**12}x39",
    f"mirrormesh_data_certificate_end_timestamp_seconds{{{NODE}}}": f"{10**12}x39",
    f"mirrormesh_simulated_noise{{{NODE}}}": "0x39",
    f'mirrormesh_mechanism_info{{{NODE},mechanism="laplace"}}': "1x39",
    f"mirrormesh_relaying{{{NODE}}}": "0x39",
    f"mirrormesh_last_learning_round{{{NODE}}}": "2500x39",
    f"mirrormesh_budget_unused_rounds{{{NODE}}}": "0x39",
    f"mirrormesh_epsilon_spent{{{STREAM}}}": "0+1x39",
    f"mirrormesh_epsilon_budget{{{STREAM}}}": "100x39",
    f'mirrormesh_evidence_total{{{NODE},edge_source="b"}}': "0x39",
    f"mirrormesh_accusations_total{{{NODE}}}": "0x39",
    f'mirrormesh_messages_refused_total{{{NODE},reason="digest"}}': "0x39",
    f'{COMMITS},le="0.1"}}': "0+60x39",
    f'{COMMITS},le="1"}}': "0+60x39",
    f'{COMMITS},le="+Inf"}}': "0+60x39",
    f"mirrormesh_data_lag_records{{{NODE}}}": "5x39",
    f"mirrormesh_records_total{{{NODE}}}": "0+600x39",
    f"mirrormesh_empty_slots_total{{{NODE}}}": "0+1x39",
    f"mirrormesh_malformed_records_total{{{NODE}}}": "0+5x39",
    f'mirrormesh_dropped_records_total{{{NODE},reason="late"}}': "0+5x39",
    f'mirrormesh_dropped_records_total{{{NODE},reason="lost"}}': "0x39",
    f"mirrormesh_process_start_time_seconds{{{NODE}}}": "7x19 300x19",
    f"mirrormesh_feed_over{{{NODE}}}": "0x39",
    f"mirrormesh_feed_failed{{{NODE}}}": "0x39",
    f"mirrormesh_score_lag_messages{{{NODE}}}": "1000x39",
    f'mirrormesh_scored_messages_total{{{NODE},outcome="scored"}}': "0+150x39",
    f"mirrormesh_score_model_timestamp_seconds{{{NODE}}}": "0+15x39",
    'mirrormesh_owner_left_out_total{mesh="m",node="l",owner="o"}': "0x39",
    'mirrormesh_owner_evidence_total{mesh="m",node="l",owner="o"}': "0x39",
    'mirrormesh_queries_refused_total{mesh="m",node="o",reason="changed"}': "0x39",
}
MESH_M, NODE_A = {"mesh": "m"}, {"mesh": "m", "node": "a"}
LAST_SEEN_B = f'mirrormesh_node_last_seen_timestamp_seconds{{{SCHEDULER},node="b"}}'
BY_B = NODE_A | {"edge_source": "b"}
RELAYING = {f"mirrormesh_relaying{{{NODE}}}": "1x39", f"mirrormesh_epsilon_spent{{{STREAM}}}": "100x39"}
FAULTS = {  # alert: what is otherwise where it fires, the labels that it then has, and its words
    "MeshStalled": [
        (
            {name: "7x39" for name in WORKING if "rounds_total" in name},
            MESH_M,
            "No node of mesh m steps.",
        )
    ],
    "MeshSlow": [  # one quiet source holds up all
        (
            {
                name: "0+60x19 1140+1x19"
                for name in WORKING
                if "rounds_total" in name or "mirrormesh_round{" in name
            },
            MESH_M,
            "Mesh m steps 0.067 rounds a second, less than a quarter of what it did in the last hour.",
        )
    ],
    "MeshGone": [  # and another mesh is well
        (
            {name: "1x9 stale" for name in WORKING if "build_info" in name}
            | {'mirrormesh_build_info{mesh="n",node="a",version="1"}': "1x39"},
            MESH_M,
            "No process of mesh m answers Prometheus, and its run was not over.",
        )
    ],
    "MetricsGone": [
        (
            {name: "_x39" for name in WORKING if "build_info" in name},
            {},
            "Prometheus has not seen a process of any mesh for a day.",
        )
    ],
    "SchedulerGone": [
        (
            {name: "2x9 stale" for name in WORKING if "plan_lead" in name or "live_nodes" in name},
            MESH_M,
            "No scheduler of mesh m answers Prometheus: rounds end with the last plan.",
        )
    ],
    "TargetDown": [
        (
            {'up{job="mirrormesh",instance="a:9100"}': "1x9 0x29", 'up{job="other",instance="z"}': "0x39"},
            {"job": "mirrormesh", "instance": "a:9100"},
            "a:9100 does not answer Prometheus.",
        )
    ],
    "NodeBehind": [
        (
            {'mirrormesh_round{mesh="m",node="b"}': "5x39"},
            {"mesh": "m", "node": "b"},
            "Node b is 2155 rounds behind mesh m.",
        )
    ],
    "NodeSilent": [
        (
            {LAST_SEEN_B: "0+15x15 240x23"},
            {"mesh": "m", "node": "b"},
            "Node b of mesh m has not been heard for 5m 0s.",
        ),
        (
            {LAST_SEEN_B: "-2000000000x39"},  # 0, at a time of this century
            {"mesh": "m", "node": "b"},
            "Node b of mesh m has not been heard in this run.",
        ),
    ],
    "NodeLeftOut": [
        (
            {f'mirrormesh_nodes_left_out_total{{{SCHEDULER},node="a"}}': "0x9 1x9 2x19"},
            NODE_A,
            "Node a of mesh m has held the others, and was left out 2 times in an hour.",
        ),
        (  # as one scheduler of two has seen it
            {'mirrormesh_nodes_left_out_total{mesh="m",instance="t",node="b"}': "0x9 3x29"},
            {"mesh": "m", "node": "b"},
            "Node b of mesh m has held the others, and was left out 3 times in an hour.",
        ),
    ],
    "OldMeshFile": [
        (
            {f"mirrormesh_file_generation{{{NODE}}}": "0x39"},
            NODE_A,
            "Node a of mesh m runs on an older mesh file than the plans: it lacks generation 1.",
        ),
        (
            {f"mirrormesh_plan_generation{{{SCHEDULER}}}": "0x9 2x29"},
            MESH_M | {"instance": "s"},
            "A scheduler of mesh m runs on an older mesh file than the plans: it lacks generation 2.",
        ),
    ],
    "BudgetNearlySpent": [
        (
            {f"mirrormesh_epsilon_spent{{{STREAM}}}": "81x39"},
            NODE_A,
            "Node a has spent 81% of its budget.",
        )
    ],
    "BudgetSpent": [
        (
            RELAYING | {f"mirrormesh_budget_unused_rounds{{{NODE}}}": f"{unused}x39"},
            NODE_A,
            f"Node a learns no more since round 2500{said}. It relays.",
        )
        for unused, said in (
            (0, ": its budget is spent"),
            (1, "; 1 round of its budget was not used"),
            (1017, "; 1017 rounds of its budget were not used"),
        )
    ],
    "Equivocation": [
        (
            {f'mirrormesh_evidence_total{{{NODE},edge_source="b"}}': "0x19 1x19"},
            BY_B,
            "b has sent two values for one round to a.",
        )
    ],
    "Accused": [
        (
            {f"mirrormesh_accusations_total{{{NODE}}}": "0x19 1x19"},
            NODE_A,
            "Readers of a say that they have two values of its for one round.",
        )
    ],
    "DeadLetters": [
        (
            {f'mirrormesh_messages_refused_total{{{NODE},reason="digest"}}': "0x19 3x19"},
            NODE_A | {"reason": "digest"},
            "a refused peers' messages of mesh m: digest.",
        )
    ],
    "SimulatedNoise": [
        (
            {f"mirrormesh_simulated_noise{{{NODE}}}": "1x39"},
            NODE_A,
            "Node a protects nothing: its noise is simulated.",
        ),
        (
            {f'mirrormesh_mechanism_info{{{NODE},mechanism="none"}}': "1x39"},
            NODE_A | {"mechanism": "none"},
            "Node a protects nothing: its mechanism is none.",
        ),
    ],
    "PlanLeadGone": [
        (
            {f"mirrormesh_plan_lead_rounds{{{SCHEDULER}}}": "1x39"},
            MESH_M,
            "Mesh m is out of plans: nodes wait for schedulers.",
        )
    ],
    "CertificateEndsSoon": [
        (
            {f"mirrormesh_certificate_end_timestamp_seconds{{{NODE}}}": f"{540 + 13 * 86_400}x39"},
            NODE_A,
            "A certificate of node a for the mesh broker ends in 13d 0h 0m 0s.",
        ),
        (
            {f"mirrormesh_certificate_end_timestamp_seconds{{{SCHEDULER}}}": "500x39"},
            MESH_M | {"instance": "s"},
            "A certificate of a scheduler for the mesh broker has ended.",
        ),
    ],
    "DataCertificateEndsSoon": [
        (
            {f"mirrormesh_data_certificate_end_timestamp_seconds{{{NODE}}}": f"{540 + 86_400}x39"},
            NODE_A,
            "A certificate of node a for its data broker ends in 1d 0h 0m 0s.",
        ),
    ],
    "BrokerGone": [
        (
            {f"mirrormesh_broker_connected{{{NODE}}}": "0x39"},
            MESH_M,
            "1 process of mesh m cannot reach the mesh broker.",
        ),
        (  # what a scheduler has not heard then is nobody's silence
            {f"mirrormesh_broker_connected{{{SCHEDULER}}}": "0x39", LAST_SEEN_B: "0+15x15 240x23"},
            MESH_M,
            "1 process of mesh m cannot reach the mesh broker.",
        ),
        (  # one page for all
            {
                f"mirrormesh_broker_connected{{{NODE}}}": "0x39",
                f"mirrormesh_broker_connected{{{SCHEDULER}}}": "0x39",
            },
            MESH_M,
            "2 processes of mesh m cannot reach the mesh broker.",
        ),
    ],
    "OwnerLeftOut": [
        (
            {'mirrormesh_owner_left_out_total{mesh="m",node="l",owner="o"}': "0x19 2x19"},
            {"mesh": "m", "owner": "o"},
            "Owner o of m does not answer in time: queries go on without it.",
        )
    ],
    "QueryRefused": [
        (
            {'mirrormesh_queries_refused_total{mesh="m",node="o",reason="changed"}': "0x19 1x19"},
            {"mesh": "m", "node": "o", "reason": "changed"},
            "Owner o has refused a query of m: changed.",
        )
    ],
    "SecondAnswer": [
        (
            {'mirrormesh_owner_evidence_total{mesh="m",node="l",owner="o"}': "0x19 1x19"},
            {"mesh": "m", "owner": "o"},
            "Owner o of m has answered one query twice, with other values.",
        )
    ],
    "JournalSlow": [
        (
            {f'{COMMITS},le="0.1"}}': "0+30x39"},
            NODE_A,
            "Node a takes 982ms to make a record durable.",
        )
    ],
    "DataStalled": [
        (
            {f"mirrormesh_records_total{{{NODE}}}": "0x39"}
            | {name: "0x39" for name in WORKING if "malformed" in name or "late" in name},
            NODE_A,
            "Node a takes no records, and 5 wait.",
        )
    ],
    "DataQuiet": [
        (
            {
                f"mirrormesh_records_total{{{NODE}}}": "0+600x19 11400x19",
                f"mirrormesh_data_lag_records{{{NODE}}}": "0x39",
            }
            | {name: "0x39" for name in WORKING if "malformed" in name or "late" in name},
            NODE_A,
            "Node a learns nothing: its slots close empty, and no record waits.",
        )
    ],
    "FeederFailed": [
        (  # it says so, ends, is started again and says so again
            {
                f"mirrormesh_feed_over{{{NODE}}}": "0x30 _x4 0x4",
                f"mirrormesh_feed_failed{{{NODE}}}": "0x26 1x3 _x4 1x4",
            },
            NODE_A,
            "The feeder of node a has failed.",
        ),
        (  # killed
            {f"mirrormesh_feed_{what}{{{NODE}}}": "0x29 stale" for what in ("over", "failed")},
            NODE_A,
            "The feeder of node a has failed: it is gone.",
        ),
    ],
    "DataBroken": [
        (
            {f"mirrormesh_malformed_records_total{{{NODE}}}": "0+12x39"},
            NODE_A,
            "Of node a's records 2% cannot be decoded.",
        )
    ],
    "RecordsDropped": [
        (
            {f'mirrormesh_dropped_records_total{{{NODE},reason="late"}}': "0+12x39"},
            NODE_A | {"reason": "late"},
            "Node a drops records (late): 432 in ten minutes.",
        ),
        (
            {f'mirrormesh_dropped_records_total{{{NODE},reason="lost"}}': "0x19 1x19"},
            NODE_A | {"reason": "lost"},
            "Node a drops records (lost): 1 in ten minutes.",
        ),
    ],
    "ScoresBehind": [
        (
            {f"mirrormesh_score_lag_messages{{{NODE}}}": "9000x39"},
            NODE_A,
            "Scores of m a are behind: 9000 messages wait.",
        ),
        (
            {f'mirrormesh_scored_messages_total{{{NODE},outcome="scored"}}': "7x39"},
            NODE_A,
            "Scores of m a are behind: 1000 messages wait.",
        ),
    ],
    "ScoreModelOld": [
        (
            {f"mirrormesh_score_model_timestamp_seconds{{{NODE}}}": "-86400x39"},
            NODE_A,
            "Messages of a are scored by a decision that is 1d 0h 9m 0s old.",
        )
    ],
    "NodeRestarts": [
        (
            {f'mirrormesh_node_starts_total{{{SCHEDULER},node="a"}}': "0x9 1x9 2x9 3x9"},
            NODE_A,
            "Node a has started 3 times in a quarter of an hour.",
        ),
        (  # its owner is not told twice
            {
                f'mirrormesh_node_starts_total{{{SCHEDULER},node="a"}}': "0x9 1x9 2x9 3x9",
                f"mirrormesh_process_start_time_seconds{{{NODE}}}": "7x9 160x9 320x9 470x9",
            },
            NODE_A,
            "Node a has started 3 times in a quarter of an hour.",
        ),
    ],
    "ProcessRestarts": [
        (
            {f"mirrormesh_process_start_time_seconds{{{NODE}}}": "7x9 160x9 320x9 470x9"},
            NODE_A,
            "The process of node a was started 3 times in a quarter of an hour.",
        ),
    ],
}

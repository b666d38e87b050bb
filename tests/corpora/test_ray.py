"""Jobs on Ray clusters on this machine, in which some nodes are killed."""

from pathlib import Path

import pytest
from command_line import run_uwaga
from table_jobs import ProgressHook, part_bytes, run, sentences

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    """Start a Ray cluster: a head node without cores, and two nodes with one core each."""
    from ray.cluster_utils import Cluster

    cluster_ = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster_.add_node(num_cpus=1) for _ in range(2)]
    cluster_.wait_for_nodes()
    yield cluster_, nodes
    cluster_.shutdown()


@pytest.mark.release
def test_no_rows_are_lost_or_duplicated_when_nodes_are_killed(cluster, tmp_path: Path) -> None:
    cluster_, nodes = cluster
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(400)) + "\n", encoding="utf-8")
    run(source, tmp_path / "whole", part_rows=8)
    kill_after = [40, 160]

    def kill(rows: int) -> None:
        if kill_after and rows >= kill_after[0]:
            kill_after.pop(0)
            cluster_.remove_node(nodes.pop(0), allow_graceful=False)
            nodes.append(cluster_.add_node(num_cpus=1))

    run(source, tmp_path / "out", part_rows=8, count=2, ray=cluster_.address, watch=ProgressHook(kill))
    assert not kill_after
    assert part_bytes(tmp_path / "out") == part_bytes(tmp_path / "whole")


def test_missing_ray_cluster_is_reported(tmp_path: Path, monkeypatch) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n", encoding="utf-8")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "1")
    monkeypatch.setenv("RAY_ADDRESS", "")
    result = run_uwaga("batch", source, tmp_path / "out", "--ray", "auto", code=1)
    assert "no Ray cluster at auto" in result.output.strip().splitlines()[-1]

"""Real clusters on loopback, whose nodes are killed on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from table_jobs import Watch, bytes_out, run, sentences
from typer.testing import CliRunner

from uwaga.cli.main import app

pytest.importorskip("ray")
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster():
    """A head without cores, and two nodes with one each."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [made.add_node(num_cpus=1) for _ in range(2)]
    made.wait_for_nodes()
    yield made, nodes
    made.shutdown()


def test_nodes_that_are_killed_on_the_way_lose_and_double_nothing(cluster, tmp_path: Path) -> None:
    made, nodes = cluster
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(400)) + "\n", encoding="utf-8")
    run(source, tmp_path / "whole", part_rows=8)
    victims = [40, 160]

    def kill(rows: int) -> None:
        if victims and rows >= victims[0]:
            victims.pop(0)
            made.remove_node(nodes.pop(0), allow_graceful=False)
            nodes.append(made.add_node(num_cpus=1))

    run(source, tmp_path / "out", part_rows=8, count=2, ray=made.address, watch=Watch(kill))
    assert not victims
    assert bytes_out(tmp_path / "out") == bytes_out(tmp_path / "whole")


def test_a_cluster_that_is_not_there_is_said_in_a_line(tmp_path: Path, monkeypatch) -> None:
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n", encoding="utf-8")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "1")
    monkeypatch.setenv("RAY_ADDRESS", "")
    done = CliRunner().invoke(app, ["batch", str(source), str(tmp_path / "out"), "--ray", "auto"])
    assert done.exit_code == 1, done.output
    assert "no Ray cluster at auto" in done.output.strip().splitlines()[-1]


def test_a_machine_of_its_own_needs_no_cluster(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n".join(sentences(40)) + "\n", encoding="utf-8")
    run(source, tmp_path / "whole", part_rows=8)
    run(source, tmp_path / "out", part_rows=8, count=1, ray="local")
    assert bytes_out(tmp_path / "out") == bytes_out(tmp_path / "whole")

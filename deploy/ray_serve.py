"""The server on a Ray cluster, for those who have one: ``serve run deploy.ray_serve:app``.

Each replica is a whole server: its own models, its own running batch. Settings are read from the file
that the variable ``UWAGA_SETTINGS`` names; without it the bundled model is served. Ray's proxy speaks HTTP,
so that host, port and workers of the settings are not looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

from ray import serve

from uwaga_server.serve import build_app
from uwaga_server.settings import ServerSettings, read_server_settings


def settings() -> ServerSettings:
    """What the file of the environment says."""
    path = os.environ.get("UWAGA_SETTINGS")
    return read_server_settings(Path(path) if path else None)


@serve.deployment(
    ray_actor_options={"num_cpus": 2},
    autoscaling_config={"min_replicas": 1, "max_replicas": 8, "target_ongoing_requests": 32},
    max_ongoing_requests=256,
    health_check_period_s=10,
    graceful_shutdown_timeout_s=40,
)
@serve.ingress(lambda: build_app(settings()))
class Uwaga:
    """One replica."""


app = Uwaga.bind()

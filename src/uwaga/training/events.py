"""Event files for TensorBoard, written in the thread that trains.

TensorBoard's own event writer has a thread, which dies silently when the disk is full and is then waited for
without end. Its messages and records are used as they are; what writes them to the file is ours.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from uwaga.training.disk import append

VERSION = "brain.Event:2"


class EventFile:
    """An event file in ``folder``, made with its first record.

    ``start`` is the step that the run goes on from: TensorBoard drops what earlier files of the folder say of
    later ones.
    """

    def __init__(self, folder: Path, start: int) -> None:
        self.folder, self.start = folder, start
        self.path = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._begun = False

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step, by their tags.

        Raises:
            OSError: it cannot be written; the file is then as it was.
        """
        now = time.time()
        events = []
        if not self._begun:
            self.folder.mkdir(parents=True, exist_ok=True)
            begun = SessionLog(status=SessionLog.START)
            events.append(Event(wall_time=now, file_version=VERSION))
            events.append(Event(wall_time=now, step=self.start + 1, session_log=begun))
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        events.append(Event(wall_time=now, step=step, summary=Summary(value=scalars)))
        content = io.BytesIO()
        records = RecordWriter(content)
        for event in events:
            records.write(event.SerializeToString())
        append(self.path, content.getvalue())
        self._begun = True

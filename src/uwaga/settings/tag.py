"""What a tag looks like: ``>>deu<<`` as in OPUS-MT, ``<2de>`` as in Johnson et al. 2017."""

from __future__ import annotations

import re

TAG = re.compile(r"<[^<>\s]+>|>>[^<>\s]+<<")

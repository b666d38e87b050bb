"""Run LibreTranslate without the parts that need a network: its index of models, and the sentence splitter.

Run it with the Python in whose environment LibreTranslate is installed. Requests contain one sentence each,
so that a splitter which returns a text unchanged does not change translations; it takes no time, which
favours LibreTranslate.
"""

from __future__ import annotations

import logging

from argostranslate import sbd  # type: ignore[import-not-found]
from libretranslate import init  # type: ignore[import-not-found]

sbd.MiniSBDSentencizer.split_sentences = lambda self, text: [text]
init.check_and_install_models = lambda **options: None
logging.getLogger("waitress.queue").setLevel(logging.ERROR)

from libretranslate.main import main  # type: ignore[import-not-found]  # noqa: E402

main()

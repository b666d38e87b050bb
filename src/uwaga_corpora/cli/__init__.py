"""The verbs ``clean``, ``batch``, ``distil`` and ``backtranslate``."""

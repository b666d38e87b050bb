"""The subcommands ``clean``, ``batch``, ``distil`` and ``backtranslate``."""

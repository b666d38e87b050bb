"""The rules of cleaning, which :data:`uwaga_corpora.cleaning.rule.RULES` lists."""

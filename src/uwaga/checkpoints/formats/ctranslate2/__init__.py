"""CTranslate2's model folders."""

"""Resumable jobs that translate tables and corpora."""

"""The readers of document formats; :mod:`uwaga.documents.document` collects them."""

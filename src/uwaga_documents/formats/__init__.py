"""The readers of document formats; :mod:`uwaga_documents.document` lists them."""

"""The steps of a translation, each in a file; :func:`uwaga.translator.pipeline.pipeline` lists them."""

"""The layers of the translation pipeline; :func:`uwaga.translator.pipeline.pipeline` connects them."""

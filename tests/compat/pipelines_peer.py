"""Run calls of transformers' pipelines, read as JSON: [[task, model, inputs, options], ...]."""

import json
import sys
import warnings

import transformers

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
pipelines, results = {}, []
for task, model, inputs, options in json.load(sys.stdin):
    if (task, model) not in pipelines:
        pipelines[task, model] = transformers.pipeline(task, model=model, device="cpu")
    texts = (text for text in inputs["each"]) if isinstance(inputs, dict) else inputs
    result = pipelines[task, model](texts, **options)
    results.append(list(result) if isinstance(inputs, dict) else result)
json.dump([transformers.__version__, results], sys.stdout)

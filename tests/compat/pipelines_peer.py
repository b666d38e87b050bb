"""Calls of transformers' pipelines, read as JSON: [[task, model, inputs, options], ...]; their results."""

import json
import sys
import warnings

import transformers

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
made, results = {}, []
for task, model, inputs, options in json.load(sys.stdin):
    if (task, model) not in made:
        made[task, model] = transformers.pipeline(task, model=model, device="cpu")
    given = (text for text in inputs["each"]) if isinstance(inputs, dict) else inputs
    found = made[task, model](given, **options)
    results.append(list(found) if isinstance(inputs, dict) else found)
json.dump([transformers.__version__, results], sys.stdout)

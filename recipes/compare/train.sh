#!/bin/sh
# The four small models that the laboratory compares: the papers of Cho, Bahdanau, Luong and Vaswani, one tokeniser, the
# same short sentences. A quarter of an hour to half an hour each on one core; a run that was stopped is resumed.
#
#   sh recipes/compare/train.sh         # from a folder that holds tatoeba/{train,dev,test}.en-de.tsv.gz
set -eu
here=$(dirname "$0")
work=runs/compare
mkdir -p "$work"

# Sentences of at most 12 words on either side.
short() { gzip -dc "$1" | awk -F '\t' 'split($1, a, " ") <= 12 && split($2, b, " ") <= 12'; }
for part in train dev test; do
  [ -s "$work/$part.tsv" ] || { short "tatoeba/$part.en-de.tsv.gz" > "$work/$part.part" && mv "$work/$part.part" "$work/$part.tsv"; }
done

for model in ${MODELS:-cho bahdanau luong transformer}; do
  uwaga train "$here/$model.yaml"
done

python "$here/publish.py" # int8 models for the laboratory
python "$here/frames.py"  # their attention during training

#!/bin/sh
# What a student gains from its teacher's targets (Kim & Rush 2016): the same settings, sources and number of updates,
# once with the references and once with what the bundled model makes of the sources. A quarter of an hour to half an
# hour on one core. A command that was stopped goes on where it was: call it again.
#
#   sh recipes/distil/compare.sh                # from a folder that holds tatoeba/{train,dev}.en-de.tsv.gz
#   CHOOSE="reference --nbest 5" sh recipes/distil/compare.sh     # sequence-level interpolation (§3.3) instead
set -eu
here=$(dirname "$0")
work=runs/distil
mkdir -p "$work"

# Three lines of eight: 60,511 pairs of every length, each with one reference.
if [ ! -s "$work/pairs.tsv" ]; then
  gzip -dc tatoeba/train.en-de.tsv.gz | awk -F '\t' 'NR % 8 < 3 { print $1 "\t" $2 }' > "$work/pairs.part"
  mv "$work/pairs.part" "$work/pairs.tsv"
fi
gzip -dc tatoeba/dev.en-de.tsv.gz | cut -f 1 > "$work/dev.en"
gzip -dc tatoeba/dev.en-de.tsv.gz > "$work/dev.tsv"

# shellcheck disable=SC2086 # CHOOSE holds several words
uwaga distil bundled "$work/pairs.tsv" --output "$work/shards" --join "$work/taught.tsv" \
  --choose ${CHOOSE:-model --beam 5}

uwaga train "$here/student.yaml"
uwaga train "$here/student.yaml" --set run="$work/taught" --set "data.train=[$work/taught.tsv]"

for beam in 1 5; do
  for student in references taught; do
    uwaga translate --model "$work/$student/model" --beam $beam --input "$work/dev.en" --output "$work/$student.$beam.de"
  done
  echo "beam $beam, first reference of each line, the taught student against the other:"
  uwaga evaluate "$work/taught.$beam.de" --reference "$work/dev.tsv" --columns 2 --metric bleu,chrf \
    --against "$work/references.$beam.de"
done

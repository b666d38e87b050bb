#!/bin/sh
# The table and the figures of docs/recurrent.md, from trained runs, with uwaga's own command line.
#
#   sh docs/figures/recurrent.sh DATA [RUNS]
#
# DATA is the folder of Multi30k's lc.norm.tok files (github.com/multi30k/dataset), RUNS that of the runs of
# recipes/multi30k-*.yaml (runs/ if not given). What is translated already, in RUNS/figures, is not translated
# again. Runs that are not finished are left out of the table. In the length figures they keep what was measured
# of them before, in lengths.json and lengths-joined.json beside this script, which are written anew. BEAM, UWAGA:
# see below. With TARGET=fr the runs are those of recipes/multi30k-*-en-fr.yaml, and the figures have -fr in
# their names.
set -eu
data=${1:?give the folder of Multi30k}
runs=${2:-runs}
figures=$(dirname "$0")
work=$runs/figures
uwaga=${UWAGA:-uwaga}
beam=${BEAM:-5}
target=${TARGET:-de}
pair_of= mark=
[ "$target" = de ] || { pair_of=-en-$target; mark=-$target; }
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
mkdir -p "$work"

# Two test sets: the single sentences, and texts of one, two and three sentences of test_2016_flickr.
for side in en "$target"; do
  gzip -dc "$data/test_2016_flickr.lc.norm.tok.$side.gz" > "$work/2016.$side"
  gzip -dc "$data/test_2017_flickr.lc.norm.tok.$side.gz" > "$work/2017.$side"
  cat "$work/2016.$side" "$work/2017.$side" > "$work/single.$side"
  head -999 "$work/2016.$side" > "$work/three.$side"
  { cat "$work/three.$side"; head -998 "$work/three.$side" | paste -d ' ' - -
    paste -d ' ' - - - < "$work/three.$side"; } > "$work/joined.$side"
done

single= joined= attending=
# Variants are measured for the table and are in no figure.
for pair in Cho=cho Sutskever=sutskever Bahdanau=bahdanau Luong=luong Transformer=tiny \
  Bahdanau-published=bahdanau-published Luong-stacked=luong-stacked Luong-local-p=luong-local-p GNMT=gnmt; do
  name=${pair%=*}
  model=$runs/multi30k-${pair#*=}$pair_of/model
  [ -d "$model" ] || { echo "no $model: left out" >&2; continue; }
  for set in single joined; do
    output=$work/$set.$name.$target
    [ -s "$output" ] || $uwaga translate -m "$model" --beam "$beam" --split never -i "$work/$set.en" -o "$output"
  done
  head -1000 "$work/single.$name.$target" > "$work/2016.$name.$target"
  tail -1000 "$work/single.$name.$target" > "$work/2017.$name.$target"
  for year in 2016 2017; do
    echo "$name, test_${year}_flickr, beam $beam:"
    $uwaga evaluate "$work/$year.$name.$target" -r "$work/$year.$target" --tokenize none --metric bleu
  done
  case $name in *-* | GNMT) continue ;; esac
  single="$single --system $name=$work/single.$name.$target"
  joined="$joined --system $name=$work/joined.$name.$target"
  case $name in Cho | Sutskever) ;; *) attending="$attending -m $name=$model" ;; esac
done

# What an earlier call has measured of the systems whose runs are not here.
earlier() {
  [ ! -f "$figures/$1$mark.json" ] || echo "--earlier $figures/$1$mark.json"
}

set -- --tokenize none --samples 1000
# shellcheck disable=SC2086 # the lists of options are meant to be split
{
  $uwaga lengths -s "$work/single.en" -r "$work/single.$target" $single "$@" --buckets 6 \
    $(earlier lengths) --table "$figures/lengths$mark.json" --output "$figures/lengths$mark.svg"
  $uwaga lengths -s "$work/joined.en" -r "$work/joined.$target" $joined "$@" --edges 10,15,20,25,30,40 \
    $(earlier lengths-joined) --table "$figures/lengths-joined$mark.json" --output "$figures/lengths-joined$mark.svg"
  $uwaga attend "outside a building , a uniformed security guard looks at the camera from behind a fence ." --words $attending \
    --output "$figures/alignments$mark.svg"
}

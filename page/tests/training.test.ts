/** The model that is trained in the page: gradients, what it learns, and what it cannot learn. */

import assert from "node:assert/strict";
import test from "node:test";
import type { Score } from "../src/lab/math";
import { type Task, Trainee, type TrainSettings } from "../src/lab/training";

const SCORES: Score[] = ["dot", "scaled", "general", "additive", "location"];

function trained(settings: TrainSettings, updates: number): { right: number; symbols: number; losses: number[]; trainee: Trainee } {
  const trainee = new Trainee(settings);
  const losses: number[] = [];
  for (let part = 0; part < updates; part += 100) {
    for (let update = 0; update < 100; ++update) trainee.step();
    losses.push(trainee.measure().loss);
  }
  const { right, symbols } = trainee.measure();
  return { right, symbols, losses, trainee };
}

for (const score of SCORES) {
  for (const positions of [true, false]) {
    test(`gradients are the slopes of the loss: ${score}, ${positions ? "with" : "without"} positions`, () => {
      const trainee = new Trainee({ task: "sort", score, positions, seed: 7 });
      const batch = trainee.heldOut.slice(0, 3);
      trainee.gradients(batch);
      for (const [name, { value, gradient }] of trainee.parameters) {
        for (let probe = 0; probe < 5; ++probe) {
          const index = (probe * 7919) % value.length;
          const [before, slope] = [value[index] as number, gradient[index] as number];
          const lossAt = (move: number): number => {
            value[index] = before + move;
            return trainee.loss(batch);
          };
          const measured = (lossAt(1e-5) - lossAt(-1e-5)) / 2e-5;
          value[index] = before;
          assert.ok(Math.abs(measured - slope) <= 1e-7 + 1e-5 * Math.abs(slope), `${name}[${index}]: ${slope}, measured ${measured}`);
        }
      }
    });
  }
}

for (const [task, updates] of [["reverse", 300], ["copy", 300], ["sort", 1000]] as Array<[Task, number]>) {
  test(`${task} is learned`, () => {
    const { right, trainee } = trained({ task, score: "scaled", positions: true, seed: 1 }, updates);
    assert.ok(right >= 0.95, `${right} of the held-out sequences are right`);
    if (task === "sort") return;
    // The weights of a step are where the result comes from.
    const matrix = trainee.matrix(trainee.heldOut[0] as number[]);
    matrix.forEach((row, step) => assert.equal(row.indexOf(Math.max(...row)), task === "copy" ? step : row.length - 1 - step));
  });
}

test("without positions the order cannot be learned", () => {
  for (const task of ["reverse", "copy"] as const) {
    const { right, symbols } = trained({ task, score: "scaled", positions: false, seed: 1 }, 500);
    assert.ok(right < 0.05 && symbols < 0.4, `${task}: ${right} of the sequences, ${symbols} of the symbols are right`);
  }
});

test("losses are reproducible by seed", () => {
  const settings: TrainSettings = { task: "sort", score: "additive", positions: true, seed: 3 };
  const first = trained(settings, 100);
  assert.deepEqual(trained(settings, 100).losses, first.losses);
  assert.ok(trained({ ...settings, seed: 4 }, 100).losses[0] !== first.losses[0]);
});

test("weights are distributions, and the held-out sequences differ", () => {
  const trainee = new Trainee({ task: "reverse", score: "scaled", positions: true, seed: 2 });
  for (const row of trainee.matrix(trainee.heldOut[0] as number[])) {
    assert.ok(Math.abs(row.reduce((sum, weight) => sum + weight, 0) - 1) < 1e-12);
  }
  assert.equal(new Set(trainee.heldOut.map(String)).size, trainee.heldOut.length);
});

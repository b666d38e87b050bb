import {
  Engine,
  UwagaError
} from "./shared.js";

// src/worker.ts
var model;
async function handleRequest(request) {
  if (request.kind === "open") {
    model = (await Engine.create(request.module)).open(request.files, request.options);
    return model.info;
  }
  if (request.kind === "vocabulary") return model?.vocabulary(request.side);
  const { id } = request;
  const onToken = request.streams ? (decided) => postMessage({ id, decided }) : void 0;
  return model?.translate([request.text], request.options, onToken)[0];
}
var last = Promise.resolve();
addEventListener("message", (event) => {
  const { id } = event.data;
  last = last.then(async () => {
    try {
      postMessage({ id, result: await handleRequest(event.data) });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      postMessage({ id, error: { code: error instanceof UwagaError ? error.code : null, message } });
    }
  });
});

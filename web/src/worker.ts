/** The worker of `Uwaga` in browsers: one model, whose calls run in the order of their messages. */
import { Engine, type EngineModel } from "./engine.js";
import { type DecidedToken, type Files, type OpenOptions, type Side, type TranslateOptions, UwagaError } from "./types.js";

export type Request =
  | { id: number; kind: "open"; module: WebAssembly.Module; files: Files; options: OpenOptions }
  | { id: number; kind: "vocabulary"; side: Side }
  | { id: number; kind: "translate"; text: string; options: TranslateOptions; streams: boolean };
export interface Reply {
  id: number;
  result?: unknown;
  /** A token of a running call. */
  decided?: DecidedToken;
  error?: { code: string | null; message: string };
}

let model: EngineModel | undefined;

async function handleRequest(request: Request): Promise<unknown> {
  if (request.kind === "open") {
    model = (await Engine.create(request.module)).open(request.files, request.options);
    return model.info;
  }
  if (request.kind === "vocabulary") return model?.vocabulary(request.side);
  const { id } = request;
  const onToken = request.streams ? (decided: DecidedToken) => postMessage({ id, decided } satisfies Reply) : undefined;
  return model?.translate([request.text], request.options, onToken)[0];
}

let last: Promise<void> = Promise.resolve();
addEventListener("message", (event: MessageEvent<Request>) => {
  const { id } = event.data;
  last = last.then(async () => {
    try {
      postMessage({ id, result: await handleRequest(event.data) } satisfies Reply);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      postMessage({ id, error: { code: error instanceof UwagaError ? error.code : null, message } } satisfies Reply);
    }
  });
});

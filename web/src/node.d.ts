declare module "node:fs/promises" {
  export function readFile(path: string | URL): Promise<Uint8Array<ArrayBuffer>>;
  export function readdir(path: string | URL): Promise<string[]>;
}

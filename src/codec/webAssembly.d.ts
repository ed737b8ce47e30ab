// Node's types name WebAssembly without its constructors; TypeScript has them only together with the whole of a browser.
declare namespace WebAssembly {
  interface Memory {
    readonly buffer: ArrayBuffer;
  }
  const Memory: new (limits: { readonly initial: number; readonly maximum: number }) => Memory;
  const Module: new (bytes: Uint8Array) => Module;
}

// Node's types declare WebAssembly without its constructors; TypeScript has them only in the DOM library.
declare namespace WebAssembly {
  interface Memory {
    readonly buffer: ArrayBuffer;
  }
  const Memory: new (limits: { readonly initial: number; readonly maximum: number }) => Memory;
  const Module: new (bytes: Uint8Array) => Module;
}

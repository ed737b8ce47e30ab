// Beside what src/codec/webAssembly.d.ts names.
declare namespace WebAssembly {
  type Imports = object;
  type Exports = object;
  interface Instance {
    readonly exports: Exports;
  }
  const Instance: new (module: Module, imports: Imports) => Instance;
}

// Extends the declarations of src/codec/webAssembly.d.ts.
declare namespace WebAssembly {
  type Imports = object;
  type Exports = object;
  interface Instance {
    readonly exports: Exports;
  }
  const Instance: new (module: Module, imports: Imports) => Instance;
}

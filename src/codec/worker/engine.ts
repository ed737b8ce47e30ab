import variant from '@jitl/quickjs-wasmfile-release-sync';
import { newQuickJSWASMModuleFromVariant, newVariant, type QuickJSWASMModule } from 'quickjs-emscripten-core';

const PAGE = 65_536;
const FIRST_PAGES = 256;
const MOST_PAGES = 512;

/** The script engine with a memory of its own: 16 MiB, at most 32 MiB, whatever a script does. */
export interface Engine {
  readonly quickjs: QuickJSWASMModule;
  /** Whether a script took more than the first 16 MiB. */
  memoryHasGrown(): boolean;
  /** Whether it took all there is. */
  memoryIsFull(): boolean;
}

/** Starts an engine from its compiled module. */
export async function startEngine(module: WebAssembly.Module): Promise<Engine> {
  const memory = new WebAssembly.Memory({ initial: FIRST_PAGES, maximum: MOST_PAGES });
  const quickjs = await newQuickJSWASMModuleFromVariant(newVariant(variant, { wasmModule: module, wasmMemory: memory }));
  return {
    quickjs,
    memoryHasGrown: () => memory.buffer.byteLength > FIRST_PAGES * PAGE,
    // The engine grows in steps, so the last one that did not fit may have been large.
    memoryIsFull: () => memory.buffer.byteLength > 0.9 * MOST_PAGES * PAGE,
  };
}

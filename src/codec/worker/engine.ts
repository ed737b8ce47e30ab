import variant from '@jitl/quickjs-wasmfile-release-sync';
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  type QuickJSHandle,
  type QuickJSWASMModule,
} from 'quickjs-emscripten-core';
import { EngineMemory, findHeapEndAddress } from './engineMemory';

const PAGE_BYTES = 65_536;
const INITIAL_PAGES = 256;
const MAX_MEMORY_PAGES = 512;

/** The script engine with its own memory: 16 MiB at the start, at most 32 MiB. */
export interface Engine {
  readonly quickjs: QuickJSWASMModule;
  readonly memory: EngineMemory;
  /** Whether a script used more than the first 16 MiB. */
  hasMemoryGrown(): boolean;
  /** Whether it uses more than 90 % of the memory that it may have. */
  isMemoryFull(): boolean;
}

/** Starts engines. */
export class EngineFactory {
  private constructor(
    private readonly module: WebAssembly.Module,
    private readonly heapEndAddress: number,
  ) {}

  /** `module`: the compiled engine. Throws if the memory of that build is laid out in an unknown way. */
  static async create(module: WebAssembly.Module): Promise<EngineFactory> {
    const memory = createMemory();
    const runtime = (await startQuickJs(module, memory)).newRuntime();
    const context = runtime.newContext();
    const blocks: QuickJSHandle[] = [];
    const heapEndAddress = findHeapEndAddress(memory, {
      allocate: (bytes) => void blocks.push(context.newArrayBuffer(new ArrayBuffer(bytes))),
      free: () => blocks.forEach((block) => block.dispose()),
    });
    return new EngineFactory(module, heapEndAddress);
  }

  /** Starts an engine with its own memory. */
  async start(): Promise<Engine> {
    const memory = createMemory();
    return {
      quickjs: await startQuickJs(this.module, memory),
      memory: new EngineMemory(memory, this.heapEndAddress),
      hasMemoryGrown: () => memory.buffer.byteLength > INITIAL_PAGES * PAGE_BYTES,
      // The engine grows in steps, so the last failed step may have been large.
      isMemoryFull: () => memory.buffer.byteLength > 0.9 * MAX_MEMORY_PAGES * PAGE_BYTES,
    };
  }
}

const createMemory = (): WebAssembly.Memory =>
  new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum: MAX_MEMORY_PAGES });

async function startQuickJs(module: WebAssembly.Module, memory: WebAssembly.Memory): Promise<QuickJSWASMModule> {
  return await newQuickJSWASMModuleFromVariant(newVariant(variant, { wasmModule: module, wasmMemory: memory }));
}

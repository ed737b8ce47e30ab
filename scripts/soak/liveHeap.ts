const MIB = 1024 * 1024;

/** The memory of a server's main thread, in MiB. */
export interface HeapUsage {
  /** Live objects on the heap. */
  readonly live: number;
  /** Buffers outside of the heap. */
  readonly buffers: number;
}

/**
 * Measures the live JavaScript heap of a server through its debugger, after a garbage collection. Without the collection
 * the size would depend mostly on the collector.
 */
export class LiveHeap {
  private lastId = 0;
  private readonly waiting = new Map<number, (response: unknown) => void>();

  private constructor(private readonly socket: WebSocket) {
    socket.addEventListener('message', ({ data }) => {
      const { id, result } = JSON.parse(String(data)) as { id?: number; result?: unknown };
      if (id !== undefined) this.waiting.get(id)?.(result);
    });
  }

  static async open(url: string): Promise<LiveHeap> {
    const socket = new WebSocket(url);
    await new Promise<void>((resolve, reject) => {
      socket.addEventListener('open', () => resolve());
      socket.addEventListener('error', () => reject(new Error(`the debugger at ${url} does not respond`)));
    });
    return new LiveHeap(socket);
  }

  async measure(): Promise<HeapUsage> {
    await this.send('HeapProfiler.collectGarbage');
    const { usedSize, backingStorageSize } = (await this.send('Runtime.getHeapUsage')) as {
      usedSize: number;
      backingStorageSize: number;
    };
    return { live: usedSize / MIB, buffers: backingStorageSize / MIB };
  }

  close(): void {
    this.socket.close();
  }

  private async send(method: string): Promise<unknown> {
    const id = (this.lastId += 1);
    const response = new Promise((resolve) => this.waiting.set(id, resolve));
    this.socket.send(JSON.stringify({ id, method }));
    return await response.finally(() => this.waiting.delete(id));
  }
}

const MIB = 1024 * 1024;

/** What a server holds, in MiB. */
export interface Held {
  /** Objects on the heap of its main thread. */
  readonly live: number;
  /** What buffers of its main thread hold outside of the heap. */
  readonly buffers: number;
}

/** What is alive in the JavaScript heap of a server: collects its garbage through the debugger that it was started with, then looks. What a heap holds before that says more about the collector than about the program. */
export class LiveHeap {
  private last = 0;
  private readonly waiting = new Map<number, (answer: unknown) => void>();

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
      socket.addEventListener('error', () => reject(new Error(`the debugger at ${url} does not answer`)));
    });
    return new LiveHeap(socket);
  }

  async held(): Promise<Held> {
    await this.ask('HeapProfiler.collectGarbage');
    const { usedSize, backingStorageSize } = (await this.ask('Runtime.getHeapUsage')) as { usedSize: number; backingStorageSize: number };
    return { live: usedSize / MIB, buffers: backingStorageSize / MIB };
  }

  close(): void {
    this.socket.close();
  }

  private async ask(method: string): Promise<unknown> {
    const id = (this.last += 1);
    const answer = new Promise((resolve) => this.waiting.set(id, resolve));
    this.socket.send(JSON.stringify({ id, method }));
    return await answer.finally(() => this.waiting.delete(id));
  }
}

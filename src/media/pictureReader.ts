import { Worker } from 'node:worker_threads';
import { assetPath } from '../kernel/assets';
import { DomainError, validationFailed } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import type { Picture, Report, WorkerStart } from './worker/messages';

const THUMBNAIL_PIXELS = 320;
const MOST_WAITING = 16;
const RETRY_MS = 2000;
// Pixels and the codecs' memory are not in here (the build caps theirs); this bounds what our own side of the thread may take.
const RESOURCES = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 8 };

/** How pictures are looked at. */
export interface PictureReaderOptions {
  readonly log: Logger;
  /** When a picture that is still being decoded is given up, in milliseconds; absent: 30 s. */
  readonly timeMs?: number | undefined;
}

interface Waiting {
  readonly file: string;
  readonly resolve: (picture: Picture) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Looks at pictures of strangers, one after the other, each in a thread of its own: a picture that breaks its decoder meets no other one,
 * and the memory that it took (hundreds of megabytes for a large one) is given back as soon as it is known.
 */
export class PictureReader {
  private readonly waiting: Waiting[] = [];
  private running: { readonly worker: Worker; readonly end: (reason: unknown) => void } | undefined;
  private stopped = false;

  constructor(private readonly options: PictureReaderOptions) {}

  /** Throws `validation_failed` for what is no picture that is taken, `media_busy` when too many wait, `shutting_down`, and the signal's reason. */
  async read(file: string, signal?: AbortSignal): Promise<Picture> {
    signal?.throwIfAborted();
    if (this.stopped) throw shuttingDown();
    if (this.waiting.length >= MOST_WAITING) throw busy();
    const { promise, resolve, reject } = Promise.withResolvers<Picture>();
    const waiting = { file, resolve, reject };
    this.waiting.push(waiting);
    const leave = (): void => {
      const at = this.waiting.indexOf(waiting);
      if (at !== -1) this.waiting.splice(at, 1);
      reject(signal?.reason); // one that is being looked at goes on; its time is bounded
    };
    signal?.addEventListener('abort', leave);
    this.next();
    try {
      return await promise;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  /** What runs or waits is refused with `shutting_down`. Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const { reject } of this.waiting.splice(0)) reject(shuttingDown());
    const { running } = this;
    running?.end(shuttingDown());
    await running?.worker.terminate();
  }

  private next(): void {
    if (this.running || this.stopped) return;
    const waiting = this.waiting.shift();
    if (!waiting) return;
    try {
      this.start(waiting);
    } catch (cause) {
      this.options.log.error({ err: cause }, 'media.thread_not_started');
      waiting.reject(unavailable(cause));
      this.next();
    }
  }

  private start({ file, resolve, reject }: Waiting): void {
    const start: WorkerStart = { file, thumbnailPixels: THUMBNAIL_PIXELS };
    const worker = new Worker(assetPath('mediaWorker.js'), { workerData: start, resourceLimits: RESOURCES, execArgv: [], env: {} });
    let cause: unknown;
    const end = (reason: unknown): void => {
      clearTimeout(deadline);
      reject(reason);
    };
    // An answer that arrived while this process was busy is heard before the thread is judged.
    const deadline = setTimeout(() => setImmediate(() => {
      end(refusal('takes too long to decode; give one with fewer pixels, or saved in the usual way (not in many passes)'));
      void worker.terminate();
    }), this.options.timeMs ?? 30_000);
    worker.on('message', (report: Report) => ('picture' in report ? resolve(report.picture) : reject(refusal(report.refused))));
    worker.on('error', (error) => (cause = error));
    worker.on('exit', () => {
      if (cause !== undefined) this.options.log.warn({ err: cause }, 'media.thread_broke');
      end(refusal('cannot be decoded: its decoder broke; give one that is whole'));
      this.running = undefined;
      this.next();
    });
    this.running = { worker, end };
  }
}

/** What is wrong with the bytes of a picture, which are no field where HTTP brings them. */
export function refusal(description: string): DomainError {
  return validationFailed([{ field: '', description: `the picture ${description}` }]);
}

const busy = (): DomainError => new DomainError('exhausted', 'media_busy', 'too many pictures wait to be looked at; try again in some seconds', { retryAfterMs: RETRY_MS });
const shuttingDown = (): DomainError => new DomainError('unavailable', 'shutting_down', 'the server is shutting down; try again when it is back');
const unavailable = (cause: unknown): DomainError =>
  new DomainError('unavailable', 'media_unavailable', 'the thread that looks at pictures cannot be started; the log of the server says why', { retryAfterMs: RETRY_MS, cause });

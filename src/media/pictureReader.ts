import type { Worker } from 'node:worker_threads';
import { DomainError, validationFailed } from '../kernel/errors';
import type { Logger } from '../kernel/logger';
import { openWorker } from '../kernel/workers';
import { FairQueue } from './fairQueue';
import { pictureCodecs } from './pictureCodecs';
import { memoryForPicture } from './pictureMemory';
import type { Picture, Report, WorkerStart } from './worker/messages';

const THUMBNAIL_PIXELS = 320;
const MOST_WAITING = 32;
const MOST_WAITING_OF_ONE = 8;
const RETRY_MS = 2000;
const OUT_OF_MEMORY = 'ERR_WORKER_OUT_OF_MEMORY';
// Pixels and the codecs' memory are not in here (theirs is capped as they are loaded); this bounds what our own side of the thread may take.
const RESOURCES = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 8 };

/** How pictures are looked at. */
export interface PictureReaderOptions {
  readonly log: Logger;
  /** When a picture that is still being decoded is given up, in milliseconds; absent: 30 s. */
  readonly timeMs?: number | undefined;
  /** When one that still waits is refused, in milliseconds; absent: 60 s. */
  readonly waitMs?: number | undefined;
  /** How much memory a picture may take, in bytes; absent: a quarter of what there is. */
  readonly mostMemory?: number | undefined;
}

interface Waiting {
  readonly file: string;
  readonly resolve: (picture: Picture) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Looks at pictures of strangers, one after the other, each in a thread of its own: a picture that breaks its decoder meets no other one,
 * and the memory that it took (hundreds of megabytes for a large one) is given back as soon as it is known. The organizations have turns: slow
 * pictures of one hold up the others for one of them at most.
 */
export class PictureReader {
  private readonly waiting = new FairQueue<Waiting>();
  private readonly mostMemory: number;
  private running: { readonly worker: Worker; readonly end: (reason: unknown) => void } | undefined;
  private stopped = false;

  constructor(private readonly options: PictureReaderOptions) {
    this.mostMemory = options.mostMemory ?? memoryForPicture();
  }

  /**
   * Throws `validation_failed` for what is no picture that is taken, `media_busy` when too many wait or one has waited for too long,
   * `media_unavailable` where nothing can be looked at, `shutting_down`, and the signal's reason.
   */
  async read(file: string, organizationId: string, signal?: AbortSignal): Promise<Picture> {
    signal?.throwIfAborted();
    if (this.stopped) throw shuttingDown();
    if (this.waiting.size >= MOST_WAITING) throw busy('too many pictures wait to be looked at');
    if (this.waiting.sizeOf(organizationId) >= MOST_WAITING_OF_ONE) throw busy('too many pictures of the organization wait to be looked at');
    const { promise, resolve, reject } = Promise.withResolvers<Picture>();
    const waiting = { file, resolve, reject };
    this.waiting.add(organizationId, waiting);
    const leave = (): void => {
      this.waiting.remove(organizationId, waiting);
      reject(signal?.reason); // one that is being looked at goes on; its time is bounded
    };
    const patience = setTimeout(() => {
      if (this.waiting.remove(organizationId, waiting)) reject(busy('the pictures before this one take long'));
    }, this.options.waitMs ?? 60_000);
    signal?.addEventListener('abort', leave);
    this.next();
    try {
      return await promise;
    } finally {
      clearTimeout(patience);
      signal?.removeEventListener('abort', leave);
    }
  }

  /** How many wait. */
  get waitingPictures(): number {
    return this.waiting.size;
  }

  /** What runs or waits is refused with `shutting_down`. Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (let next = this.waiting.take(); next; next = this.waiting.take()) next.reject(shuttingDown());
    const { running } = this;
    running?.end(shuttingDown());
    await running?.worker.terminate();
  }

  private next(): void {
    if (this.running || this.stopped) return;
    const waiting = this.waiting.take();
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
    const start: WorkerStart = { file, codecs: pictureCodecs(), thumbnailPixels: THUMBNAIL_PIXELS, mostMemory: this.mostMemory };
    const worker = openWorker('mediaWorker.js', { workerData: start, resourceLimits: RESOURCES });
    let cause: Error | undefined;
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
    worker.on('error', (error: Error) => (cause = error));
    worker.on('exit', () => {
      // What decoding does to the thread is the picture's; all else that ends it is ours: its program, a codec, the file.
      const isOurs = cause !== undefined && !('code' in cause && cause.code === OUT_OF_MEMORY);
      if (isOurs) this.options.log.error({ err: cause }, 'media.thread_broke');
      end(isOurs ? unavailable(cause) : refusal('cannot be decoded: its decoder broke; give one that is whole'));
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

const busy = (words: string): DomainError => new DomainError('exhausted', 'media_busy', `${words}; try again in some seconds`, { retryAfterMs: RETRY_MS });
const shuttingDown = (): DomainError => new DomainError('unavailable', 'shutting_down', 'the server is shutting down; try again when it is back');
const unavailable = (cause: unknown): DomainError =>
  new DomainError('unavailable', 'media_unavailable', 'pictures cannot be looked at; the log of the server says why', { retryAfterMs: RETRY_MS, cause });

import type { Worker } from 'node:worker_threads';
import { DomainError, validationFailed } from '../kernel/errors';
import { FairQueue } from '../kernel/fairQueue';
import type { Logger } from '../kernel/logger';
import { startWorker } from '../kernel/workers';
import { loadImageCodecs } from './imageCodecs';
import { getMaxImageMemory } from './imageMemory';
import type { ProcessedImage, WorkerReport, WorkerStart } from './worker/messages';

const THUMBNAIL_PIXELS = 320;
const QUEUE_LIMITS = { perOwner: { items: 8, weight: Infinity }, total: { items: 32, weight: Infinity } };
const RETRY_AFTER_MS = 2000;
const OUT_OF_MEMORY = 'ERR_WORKER_OUT_OF_MEMORY';
// Pixels and the codecs' memory are not included (it is capped when they are loaded). This limits the memory of our
// own code in the thread.
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32, stackSizeMb: 8 };

/** The limits of image processing. */
interface ImageProcessorOptions {
  readonly log: Logger;
  /** The time limit for decoding an image, in milliseconds; absent: 30 s. */
  readonly decodeTimeoutMs?: number | undefined;
  /** The time limit for waiting in the queue, in milliseconds; absent: 60 s. */
  readonly queueTimeoutMs?: number | undefined;
  /** The memory limit for an image, in bytes; absent: a quarter of the available memory. */
  readonly maxMemory?: number | undefined;
}

interface QueuedImage {
  readonly file: string;
  readonly resolve: (image: ProcessedImage) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Checks untrusted images one after the other, each in its own thread: an image that breaks its decoder cannot affect
 * another one, and its memory (hundreds of megabytes for a large image) is freed immediately. Organizations are served
 * round robin, so a slow image delays the other organizations by one image at most.
 */
export class ImageProcessor {
  private readonly queue = new FairQueue<QueuedImage>(QUEUE_LIMITS);
  private readonly maxMemory: number;
  private running: { readonly worker: Worker; readonly end: (reason: unknown) => void } | undefined;
  private stopped = false;

  constructor(private readonly options: ImageProcessorOptions) {
    this.maxMemory = options.maxMemory ?? getMaxImageMemory();
  }

  /**
   * Throws `validation_failed` for an unsupported image, `media_queue_full` when too many images wait or this one
   * waited too long, `media_unavailable` if no image can be processed, `shutting_down`, and the signal's reason.
   */
  async process(file: string, organizationId: string, signal?: AbortSignal): Promise<ProcessedImage> {
    signal?.throwIfAborted();
    if (this.stopped) throw shuttingDown();
    const { promise, resolve, reject } = Promise.withResolvers<ProcessedImage>();
    const queued = { file, resolve, reject };
    if (!this.queue.add(organizationId, queued)) {
      const isFull = this.queue.size >= QUEUE_LIMITS.total.items;
      throw mediaQueueFull(`too many images${isFull ? '' : ' of the organization'} are waiting to be processed`);
    }
    const cancel = (): void => {
      this.queue.remove(organizationId, queued);
      reject(signal?.reason); // an image in progress continues; its time is limited
    };
    const queueTimer = setTimeout(() => {
      if (this.queue.remove(organizationId, queued))
        reject(mediaQueueFull('processing the images before this one takes too long'));
    }, this.options.queueTimeoutMs ?? 60_000);
    signal?.addEventListener('abort', cancel);
    this.startNext();
    try {
      return await promise;
    } finally {
      clearTimeout(queueTimer);
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** The number of waiting images. */
  get queueLength(): number {
    return this.queue.size;
  }

  /** Rejects running and waiting images with `shutting_down`. Safe to call twice. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const { reject } of this.queue.removeAll()) reject(shuttingDown());
    const { running } = this;
    running?.end(shuttingDown());
    await running?.worker.terminate();
  }

  /** Processes the next image, unless one is being processed already. */
  private startNext(): void {
    if (this.running || this.stopped) return;
    const queued = this.queue.removeNext();
    if (!queued) return;
    try {
      this.startWorker(queued);
    } catch (cause) {
      this.options.log.error({ err: cause }, 'media.worker_start_failed');
      queued.reject(mediaUnavailable(cause));
      this.startNext();
    }
  }

  /** Starts the thread for an image. The image is settled by the report of the thread, its exit, or the time limit. */
  private startWorker({ file, resolve, reject }: QueuedImage): void {
    const workerStart: WorkerStart = {
      file,
      codecs: loadImageCodecs(),
      thumbnailPixels: THUMBNAIL_PIXELS,
      maxMemory: this.maxMemory,
    };
    const worker = startWorker('mediaWorker.js', { workerData: workerStart, resourceLimits: RESOURCE_LIMITS });
    let workerError: Error | undefined;
    const end = (reason: unknown): void => {
      clearTimeout(deadline);
      reject(reason);
    };
    // setImmediate: a report of the thread that arrived while this process was busy is handled first.
    const deadline = setTimeout(
      () =>
        setImmediate(() => {
          end(
            invalidImage(
              'takes too long to decode: upload one with fewer pixels, or saved without progressive encoding',
            ),
          );
          void worker.terminate();
        }),
      this.options.decodeTimeoutMs ?? 30_000,
    );
    worker.on('message', (report: WorkerReport) =>
      'image' in report ? resolve(report.image) : reject(invalidImage(report.rejectionReason)),
    );
    worker.on('error', (error: Error) => (workerError = error));
    // Also called after the report of a thread that succeeded. The promise is then already settled, so `end` has no
    // effect on it.
    worker.on('exit', () => {
      // An error of the decoder is blamed on the image. Any other exit is a problem of the server: its program, a
      // codec, the file.
      const isServerError = workerError !== undefined && !('code' in workerError && workerError.code === OUT_OF_MEMORY);
      if (isServerError) this.options.log.error({ err: workerError }, 'media.worker_crashed');
      end(
        isServerError
          ? mediaUnavailable(workerError)
          : invalidImage('cannot be decoded because its decoder crashed: upload an intact image'),
      );
      this.running = undefined;
      this.startNext();
    });
    this.running = { worker, end };
  }
}

/** Creates the error for invalid image bytes, which have no field name in HTTP. */
export function invalidImage(description: string): DomainError {
  return validationFailed([{ field: '', description: `the image ${description}` }]);
}

const mediaQueueFull = (reason: string): DomainError =>
  new DomainError('exhausted', 'media_queue_full', `${reason}: try again in a few seconds`, {
    retryAfterMs: RETRY_AFTER_MS,
  });
const shuttingDown = (): DomainError =>
  new DomainError('unavailable', 'shutting_down', 'the server is shutting down: try again after the restart');
const mediaUnavailable = (cause: unknown): DomainError =>
  new DomainError('unavailable', 'media_unavailable', 'images cannot be processed: see the server log for the reason', {
    retryAfterMs: RETRY_AFTER_MS,
    cause,
  });

import { type Client, connectivityState, Metadata, type ServiceError } from '@grpc/grpc-js';
import { wasNotSent } from './interruptedCalls';

// Short steps, because grpc-js waits by the system clock, which may change, and its timer keeps the process alive.
const WAIT_STEP_MS = 500;
const PROBE_TIMEOUT_MS = 1000;
// A method without an API key and without retries: if there is no connection, a call of it fails immediately with the
// reason.
const PROBE_PATH = '/grpc.health.v1.Health/Watch';

/** Something that can be cancelled. */
export interface Cancellable {
  cancel(): void;
}

/** The limits of waiting for a connection. Times are values of performance.now(). */
export interface WaitLimits {
  /** The end of the wait if the server is unreachable. */
  readonly connectUntil: number;
  /** The end of the wait in any case. */
  readonly deadline: number;
  /** Cancels the wait when the call ends. Returns a function that stops this. */
  readonly cancelOnEnd: (waiting: Cancellable) => () => void;
}

/**
 * Checks the connection of a client once and waits up to 500 ms for a change. Returns `connected`, `deadline_exceeded`,
 * `waiting` if a connection may still be established, or the error if the wait is over.
 */
export async function checkConnection(
  client: Client,
  { connectUntil, deadline, cancelOnEnd }: WaitLimits,
): Promise<'connected' | 'deadline_exceeded' | 'waiting' | ServiceError> {
  const channel = client.getChannel();
  const state = channel.getConnectivityState(true); // true: connect if the channel is idle
  if (state === connectivityState.READY) return 'connected';
  const now = performance.now();
  if (now >= deadline) return 'deadline_exceeded';
  const isUnreachable = state === connectivityState.TRANSIENT_FAILURE;
  if (isUnreachable && now >= connectUntil) return (await findConnectionError(client, cancelOnEnd)) ?? 'waiting';
  // While the connection is being established, only the deadline ends the wait.
  const endOfWait = isUnreachable ? Math.min(deadline, connectUntil) : deadline;
  const waitMs = Math.min(endOfWait - now, WAIT_STEP_MS);
  await new Promise<void>((resolve) => {
    const release = cancelOnEnd({ cancel: resolve });
    channel.watchConnectivityState(state, Date.now() + Math.ceil(waitMs), () => {
      release();
      resolve();
    });
  });
  return 'waiting';
}

/**
 * Makes a test call, which fails immediately if there is no connection, and returns its error: the reason why there is
 * no connection. Undefined if there may be a connection by now.
 */
async function findConnectionError(
  client: Client,
  cancelOnEnd: WaitLimits['cancelOnEnd'],
): Promise<ServiceError | undefined> {
  return await new Promise((resolve) => {
    const probe = client.makeServerStreamRequest(
      PROBE_PATH,
      passThrough,
      passThrough,
      Buffer.alloc(0),
      new Metadata(),
      {
        deadline: Date.now() + PROBE_TIMEOUT_MS,
      },
    );
    const release = cancelOnEnd(probe);
    probe.on('data', () => probe.cancel());
    probe.on('end', () => {});
    probe.on('error', (error: ServiceError) => {
      release();
      resolve(wasNotSent(error) ? error : undefined);
    });
    probe.on('status', () => {
      release();
      resolve(undefined); // The call succeeded; an error would have come before.
    });
  });
}

const passThrough = (bytes: Buffer): Buffer => bytes;

import { type Client, connectivityState, Metadata, type ServiceError } from '@grpc/grpc-js';
import { neverLeft } from './brokenLinks';

// The clock of the machine may be set while grpc-js waits by it, and its timer keeps the process alive.
const WAIT_STEP_MS = 500;
const PROBE_MS = 1000;
// A method that needs no key and that no service config knows: a call of it fails at once where there is no connection, and says why.
const PROBE = '/grpc.health.v1.Health/Watch';

/** Something that can be ended before its time. */
export interface Cancellable {
  cancel(): void;
}

/** Until when a connection is waited for, by performance.now(). */
export interface Patience {
  /** Where it cannot be had. */
  readonly until: number;
  /** In any case. */
  readonly ends: number;
  /** Ends what is waited for when the call is to end, until what is returned is called. */
  readonly hold: (waiting: Cancellable) => () => void;
}

/** Looks once for the connection of a client, and waits a little for it. Gives whether it is there, may come, or why it is not to be waited for. */
export async function lookForConnection(client: Client, { until, ends, hold }: Patience): Promise<'there' | 'late' | 'waiting' | ServiceError> {
  const channel = client.getChannel();
  const state = channel.getConnectivityState(true);
  if (state === connectivityState.READY) return 'there';
  const now = performance.now();
  if (now >= ends) return 'late';
  const isAway = state === connectivityState.TRANSIENT_FAILURE;
  if (isAway && now >= until) return (await whyAway(client, hold)) ?? 'waiting';
  const waitMs = Math.min(ends - now, isAway ? until - now : WAIT_STEP_MS, WAIT_STEP_MS);
  await new Promise<void>((resolve) => {
    const release = hold({ cancel: resolve });
    channel.watchConnectivityState(state, Date.now() + Math.ceil(waitMs), () => {
      release();
      resolve();
    });
  });
  return 'waiting';
}

/** Why there is no connection; undefined: there may be one by now. */
async function whyAway(client: Client, hold: Patience['hold']): Promise<ServiceError | undefined> {
  return await new Promise((resolve) => {
    const probe = client.makeServerStreamRequest(PROBE, same, same, Buffer.alloc(0), new Metadata(), { deadline: Date.now() + PROBE_MS });
    const release = hold(probe);
    probe.on('data', () => probe.cancel());
    probe.on('end', () => {});
    probe.on('error', (error: ServiceError) => {
      release();
      resolve(neverLeft(error) ? error : undefined);
    });
    probe.on('status', () => {
      release();
      resolve(undefined); // where it ended well; an error came before
    });
  });
}

const same = (bytes: Buffer): Buffer => bytes;

import { shuttingDown } from './activeCall';
import { KeyWatch, type KeyWatchOptions } from './keyWatch';
import type { ServerCall } from './serverCall';

/** The open calls of a server, and the checks of the keys of open streams. */
export class CallRegistry {
  /** Whether the server is stopping and rejects new calls. */
  isDraining = false;
  readonly keyWatch: KeyWatch;
  private readonly calls = new Set<ServerCall>();
  private onIdle: (() => void) | undefined;

  constructor(options: KeyWatchOptions) {
    this.keyWatch = new KeyWatch(options);
  }

  /** Adds a call whose headers have arrived. */
  add(call: ServerCall): void {
    this.calls.add(call);
  }

  /** Removes a call that has ended. */
  remove(call: ServerCall): void {
    this.calls.delete(call);
    if (!call.method.isUnary) this.keyWatch.unwatchStream(call);
    if (this.calls.size === 0) this.onIdle?.();
  }

  /** Resolves when no call is open. Only one caller at a time may wait. */
  async whenIdle(): Promise<void> {
    if (this.calls.size > 0) await new Promise<void>((resolve) => (this.onIdle = resolve));
  }

  /** Aborts the open streams at a shutdown, because they might never end; unary calls, which are short, continue. */
  abortStreams(): void {
    for (const call of this.calls) if (!call.method.isUnary) call.abort(shuttingDown());
  }

  /** Ends all open calls with shutting_down. */
  failAll(): void {
    for (const call of this.calls) call.fail(shuttingDown());
  }
}

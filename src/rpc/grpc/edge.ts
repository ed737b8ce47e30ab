import type { Clock } from '../../kernel/clock';
import type { Logger } from '../../kernel/logger';
import type { Authenticator } from '../authenticator';
import { shuttingDown } from '../openCall';
import { KeyWatch } from './keyWatch';
import type { ServedCall } from './servedCall';

/** What every open call of one server shares. */
export class Edge {
  readonly authenticator: Authenticator;
  readonly clock: Clock;
  readonly log: Logger;
  /** New calls are refused: the server is stopping. */
  draining = false;
  private readonly calls = new Set<ServedCall>();
  private readonly keys: KeyWatch;
  private idle: (() => void) | undefined;

  constructor(options: { authenticator: Authenticator; clock: Clock; log: Logger; keyRecheckMs: number }) {
    this.authenticator = options.authenticator;
    this.clock = options.clock;
    this.log = options.log;
    this.keys = new KeyWatch(options.authenticator, options.log, options.keyRecheckMs);
  }

  /** A call has begun. */
  open(call: ServedCall): void {
    this.calls.add(call);
  }

  /** A stream's key is known: from here on it is looked at again and again. */
  streamOpened(call: ServedCall): void {
    this.keys.add(call);
  }

  /** A call has ended. */
  closed(call: ServedCall): void {
    this.calls.delete(call);
    if (!call.method.isUnary) this.keys.delete(call);
    if (this.calls.size === 0) this.idle?.();
  }

  /** Looks at a key at once, because somebody changed it in this process. */
  keyChanged(keyId: string): void {
    this.keys.recheck(keyId);
  }

  /** Resolves when no call is open. */
  async whenIdle(): Promise<void> {
    if (this.calls.size > 0) await new Promise<void>((resolve) => (this.idle = resolve));
  }

  /** Tells the streams to end; unary calls may go on. */
  endStreams(): void {
    for (const call of this.calls) if (!call.method.isUnary) call.abort(shuttingDown());
  }

  /** Ends every call that is still open. */
  endAll(): void {
    for (const call of this.calls) call.fail(shuttingDown());
  }
}

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clients, type Key, openClients } from './clients';
import type { Trap } from './trapLogger';
import { Victim } from './victim';

/** A running server and its clients. */
export interface Running {
  readonly victim: Victim;
  readonly clients: Clients;
  /** The HTTP address, `host:port`. */
  readonly http: string;
  readonly key: Key;
}

/** One installation, whose database survives every server that is killed on it. */
export class Site {
  readonly folder = mkdtempSync(join(tmpdir(), 'plantroom-crash-'));
  private key: Key | undefined;
  private aheadMs = 0;
  private readonly clockAdvances: { readonly at: number; readonly ms: number }[] = [];

  /**
   * `databaseUrl`: an empty PostgreSQL database; '' for SQLite. `listen`: the gRPC address of every server, `host:port`;
   * port 0: any free port.
   */
  constructor(
    readonly databaseUrl: string,
    private readonly listen = '127.0.0.1:0',
  ) {}

  /** Starts a server; undefined if the trap killed it before it was ready. */
  async start(trap?: Trap): Promise<Running | undefined> {
    const started = await Victim.start({
      folder: this.folder,
      databaseUrl: this.databaseUrl,
      listen: this.listen,
      aheadMs: this.aheadMs,
      trap,
    });
    if (!started) return undefined;
    const { victim, ready } = started;
    this.key ??= ready.key;
    if (!this.key) throw new Error('the first start did not create an API key');
    return { victim, clients: openClients(ready.address, this.key), http: ready.http, key: this.key };
  }

  /** Starts a server without a trap. */
  async startWithoutTrap(): Promise<Running> {
    const running = await this.start();
    if (!running) throw new Error('the server was killed from outside');
    return running;
  }

  /** Moves the clock of a server, and of the servers that follow, forward. */
  advanceClock({ victim }: Running, ms: number): void {
    this.aheadMs += ms;
    this.clockAdvances.push({ at: Date.now(), ms });
    victim.advanceClock(ms);
  }

  /** By how many milliseconds the clocks were moved forward until `time` (Unix milliseconds of this machine). */
  aheadAt(time: number): number {
    return this.clockAdvances.reduce((sum, { at, ms }) => (at <= time ? sum + ms : sum), 0);
  }
}

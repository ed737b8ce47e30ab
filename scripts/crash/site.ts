import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clients, type Key, openClients } from './clients';
import type { Trap } from './trapLogger';
import { Victim } from './victim';

/** A server that is there, and clients of it. */
export interface Running {
  readonly victim: Victim;
  readonly clients: Clients;
  /** Where it speaks HTTP. */
  readonly http: string;
  readonly key: Key;
}

/** One installation: a database that outlives every server that is killed on it. */
export class Site {
  readonly folder = mkdtempSync(join(tmpdir(), 'plantroom-crash-'));
  private key: Key | undefined;
  private aheadMs = 0;
  private readonly skips: { readonly at: number; readonly ms: number }[] = [];

  /** `databaseUrl`: an empty PostgreSQL database; empty: SQLite. `listen`: where every server of it speaks gRPC, `host:port`; port 0: each where there is room. */
  constructor(
    readonly databaseUrl: string,
    private readonly listen = '127.0.0.1:0',
  ) {}

  /** Starts a server; undefined: the trap killed it before it served. */
  async start(trap?: Trap): Promise<Running | undefined> {
    const started = await Victim.start({ folder: this.folder, databaseUrl: this.databaseUrl, listen: this.listen, aheadMs: this.aheadMs, trap });
    if (!started) return undefined;
    const { victim, ready } = started;
    this.key ??= ready.key;
    if (!this.key) throw new Error('the first start made no key');
    return { victim, clients: openClients(ready.address, this.key), http: ready.http, key: this.key };
  }

  /** A server without a trap. */
  async startSafely(): Promise<Running> {
    const running = await this.start();
    if (!running) throw new Error('the server was killed by somebody else');
    return running;
  }

  /** Puts the clock of a server forward, and of those that follow. */
  skip({ victim }: Running, ms: number): void {
    this.aheadMs += ms;
    this.skips.push({ at: Date.now(), ms });
    victim.skip(ms);
  }

  /** How far the clocks of its servers were put forward until then (Unix milliseconds of this machine), in milliseconds. */
  aheadAt(time: number): number {
    return this.skips.reduce((sum, { at, ms }) => (at <= time ? sum + ms : sum), 0);
  }
}
